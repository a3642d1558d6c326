"""`completion bash|zsh`: a shell script that completes commands and options, made from the parser itself."""

import argparse
from collections.abc import Iterator
from typing import Final

_BASH: Final = """\
_quita_cli() {{
  local at=1 path="" words=""
  while [ "$at" -lt "$COMP_CWORD" ]; do
    case "${{COMP_WORDS[at]}}" in -*) ;; *) path="$path ${{COMP_WORDS[at]}}" ;; esac
    at=$((at + 1))
  done
  while :; do
    case "$path" in
{cases}
    esac
    [ -n "$words" ] || [ -z "$path" ] && break
    path="${{path% *}}"
  done
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _quita_cli quita-cli quita-cli.pyz
"""
_ZSH: Final = "autoload -U +X bashcompinit && bashcompinit\n"


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script: after each command it completes the subcommands and options that the command's parser knows."""
    cases = "\n".join(f'      "{path}") words="{" ".join(words)}" ;;' for path, words in _paths(parser, ""))
    return (_ZSH if shell == "zsh" else "") + _BASH.format(cases=cases)


def _paths(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, list[str]]]:
    words: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                words.append(name)
                yield from _paths(child, f"{path} {name}")
        elif action.option_strings:
            words.append(action.option_strings[-1])
        elif action.choices is not None:
            words += map(str, action.choices)
    yield path, words
