"""`fairlead completion`: completion scripts for bash, zsh and fish."""

import argparse
import shlex
from collections.abc import Sequence
from typing import Any, Final

from fairlead.cli.shell.complete import Completions, CompletionWord, complete

_SCRIPTS: Final = {
    "bash": """\
# fairlead's completion for bash. In ~/.bashrc: source <(fairlead completion bash)
_fairlead() {
    local answer
    COMPREPLY=()
    mapfile -t answer < <("${COMP_WORDS[0]/#\\~/$HOME}" completion words --shell bash -- \\
        "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case ${answer[0]-} in
        files) compopt -o default ;;
        folders) compopt -o dirnames ;;
        words)
            COMPREPLY=("${answer[@]:1}")
            [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
            ;;
    esac
    return 0
}
complete -F _fairlead fairlead
""",
    "zsh": """\
#compdef fairlead
# fairlead's completion for zsh. In ~/.zshrc, after compinit: source <(fairlead completion zsh)
_fairlead() {
    local -a answer candidates
    answer=("${(@f)$(${~words[1]} completion words --shell zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    case $answer[1] in
        files) _files ;;
        folders) _files -/ ;;
        words)
            candidates=("${(@)answer[2,-1]}")
            (( $#candidates )) && _describe fairlead candidates
            ;;
    esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _fairlead "$@"
else
    compdef _fairlead fairlead
fi
""",
    "fish": """\
# fairlead's completion for fish. Save it as ~/.config/fish/completions/fairlead.fish
function __fairlead_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer ($words[1] completion words --shell fish -- $words[2..-1] "$current" 2>/dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
        case words
            test (count $answer) -gt 1; and printf '%s\\n' $answer[2..-1]
    end
end
complete -c fairlead -f -a '(__fairlead_complete)'
""",
}


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a script for bash, zsh or fish. It completes commands, options, values, files, "
        "and the names of devices, policies, profiles, labs and jobs.",
    )
    verbs = command.add_subparsers(title="shells", dest="verb", metavar="SHELL", required=True)
    for shell in _SCRIPTS:
        verb = verbs.add_parser(
            shell, help=f"the script for {shell}", description=f"Print the script for {shell}."
        )
        verb.set_defaults(run=run, shell=shell)
    # The scripts call it at every Tab. It has no help text, so the list of shells does not show it.
    words = verbs.add_parser(
        "words", description="Print the completions of the last word; the scripts call this."
    )
    words.add_argument(
        "--shell", choices=tuple(_SCRIPTS), required=True, help="the shell that reads the output"
    )
    words.add_argument("word", metavar="WORD", nargs="*", help="the command line so far, after --")
    words.set_defaults(run=run_words)


def run(options: argparse.Namespace) -> int:
    """Print a completion script."""
    print(_SCRIPTS[options.shell], end="")
    return 0


def run_words(options: argparse.Namespace) -> int:
    """Print the completions of the last word: files, folders or words on the first line, then the words."""
    from fairlead.cli.main import build_parser
    from fairlead.cli.shell.names import values

    words = options.word or [""]
    before = ""
    if options.shell == "bash":
        words, before = join_equals(words)
    completions = complete(build_parser(words[0] if len(words) > 1 else ""), words, values)
    candidates = format_candidates(completions, options.shell, before)
    print("\n".join([completions.kind.value, *candidates]))
    return 0


def join_equals(words: Sequence[str]) -> tuple[list[str], str]:
    """Join bash's words `--on = x` to `--on=x`; return them, and the prefix that bash already has."""
    joined: list[str] = []
    after_equals, before = False, ""
    for word in words:
        if word == "=" and joined and joined[-1].startswith("--"):
            joined[-1] += "="
            after_equals, before = True, joined[-1]
        elif after_equals:
            joined[-1] += word
            after_equals = False
        else:
            joined.append(word)
            before = ""
    return joined, before


def format_candidates(answer: Completions, shell: str, before: str = "") -> list[str]:
    """Return the candidates in the format that a shell's script reads."""
    if shell == "bash":
        return [shlex.quote(candidate.word.removeprefix(before)) for candidate in answer.candidates]
    return [_zsh(candidate) if shell == "zsh" else _fish(candidate) for candidate in answer.candidates]


def _zsh(each: CompletionWord) -> str:
    word = each.word.replace("\\", "\\\\").replace(":", "\\:")
    return f"{word}:{each.help}" if each.help else word


def _fish(each: CompletionWord) -> str:
    return f"{each.word}\t{each.help}" if each.help else each.word
