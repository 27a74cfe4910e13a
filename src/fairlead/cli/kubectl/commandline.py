"""The parser of `kubectl fairlead`: commands about a cluster, with kubectl's flags before or after them."""

import argparse
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final

from fairlead import __version__
from fairlead.cli.shell.commandline import CommandParser

PROGRAM: Final = "kubectl fairlead"
COMMANDS: Final = {
    "nodes": "cluster.nodes",
    "devices": "cluster.devices",
    "top": "kubectl.top",
    "explain": "placement.explain",
    "rightsize": "placement.rightsize",
    "pipeline": "pipeline.command",
    "augment": "augment.command",
}
"""Each command, and its module below `fairlead.cli`."""
_CLUSTER: Final = "--kubeconfig"
"""The option of every command that asks a cluster."""
_ABOUT: Final = {"pipeline": "deploy, watch, drain and delete pipelines of streaming stages"}
"""What a command is for here, where `fairlead` has more of it."""
_NAMESPACE: Final = ("-n", "--namespace")
_FLAGS: Final = {"-n", "--namespace", "--context", "--kubeconfig", "-o", "--output"}
"""kubectl's flags with a value, which may stand before the command as well."""
_SWITCHES: Final = {"-A", "--all-namespaces"}


def build_parser(only: str = "") -> argparse.ArgumentParser:
    """Return the parser of every command, or of one alone."""
    top = CommandParser(
        prog=PROGRAM,
        description="Show and change what fairlead does in a cluster: nodes, accelerators, waiting pods, "
        "sizes, pipelines and augmentations.",
        epilog="kubectl's -n, --context, --kubeconfig and -o work with every command. Exit codes: 0 done, 1 "
        "the answer is no, 2 you must change something, 3 the cluster is unavailable.",
    )
    top.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name in (only,) if only in COMMANDS else COMMANDS:
        import_module(f"fairlead.cli.{COMMANDS[name]}").add(commands)
    for name, command in commands.choices.items():
        _keep_cluster_verbs(command)
        _describe(commands, name)
    for leaf in _leaves(top):
        _add_namespace(leaf)
        leaf.set_defaults(kubectl=True)
    return top


def _keep_cluster_verbs(command: argparse.ArgumentParser) -> None:
    """Drop the verbs that ask no cluster: they are `fairlead`'s alone."""
    for verbs in _subparsers(command):
        kept = {name for name, verb in verbs.choices.items() if _CLUSTER in verb._option_string_actions}
        for name in set(verbs.choices) - kept:
            del verbs.choices[name]
        verbs._choices_actions = [each for each in verbs._choices_actions if each.dest in kept]


def _describe(commands: "argparse._SubParsersAction[Any]", name: str) -> None:
    about = _ABOUT.get(name)
    if about:
        commands.choices[name].description = f"{about[0].upper()}{about[1:]}."
        for each in commands._choices_actions:
            each.help = about if each.dest == name else each.help


def _add_namespace(leaf: argparse.ArgumentParser) -> None:
    """Take -n as kubectl does where it has no meaning: nodes have no namespace."""
    if _NAMESPACE[0] not in leaf._option_string_actions:
        leaf.add_argument(*_NAMESPACE, metavar="NAME", help="taken as by kubectl, without an effect here")


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    subparsers = _subparsers(parser)
    if not subparsers:
        yield parser
    for verbs in subparsers:
        for below in verbs.choices.values():
            yield from _leaves(below)


def _subparsers(parser: argparse.ArgumentParser) -> "list[argparse._SubParsersAction[Any]]":
    return [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]


def flags_last(words: Sequence[str]) -> list[str]:
    """Move kubectl's flags from before the command to its end, where its parser takes them."""
    flags, rest = leading_flags(words)
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *flags, *rest[end:]]


def leading_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return kubectl's flags before the command, and the rest."""
    count = 0
    while count < len(words) and words[count].partition("=")[0] in _FLAGS | _SWITCHES:
        count += 2 if words[count] in _FLAGS else 1
    return list(words[:count]), list(words[count:])
