/** Starts the page: the theme, the token, the server. */
import "./styles/index.css";
import { render } from "preact";
import { App } from "./app";
import { takeToken } from "./session";
import { readTheme, setTheme } from "./ui/theme";

setTheme(readTheme());
const token = takeToken();
render(<App token={token} />, document.getElementById("app") as HTMLElement);
