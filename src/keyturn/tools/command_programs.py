"""Which programs a command may run without anybody being asked: a rule over what was read, never over its letters.

It allows a command only if all of it was understood and every program in it is listed; else a person is asked. A
list is a convenience. What a listed program reads and writes it does not see: the sandbox is the boundary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..core.errors import UserError
from .command_reading import read_command

MOST = 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
_JOINED = frozenset({"&&", "||", ";", "|", "a new line"})


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What runs other programs, or text as a program, by its arguments, its input or the configuration that it finds.
RUNNERS = _names(
    """
    sh bash dash zsh ksh mksh fish csh tcsh ash rbash elvish nu pwsh powershell busybox toybox coreutils python
    pypy ipython perl ruby irb node nodejs deno bun lua luajit php tclsh wish expect guile scheme racket sbcl
    ghci runghc R Rscript julia octave swipl java jshell groovy scala kotlin awk gawk mawk nawk bc dc m4 jq gdb
    lldb env xargs parallel nohup nice ionice chrt taskset setsid setpriv setarch stdbuf timeout time watch
    script strace ltrace perf valgrind unshare nsenter chroot flock start-stop-daemon systemd-run at batch
    crontab run-parts sudo doas su runuser pkexec gosu su-exec sg newgrp ssh scp sftp rsync rsh mosh socat nc
    ncat netcat telnet ftp lftp tmux screen dtach entr inotifywait make gmake cmake ninja just rake ant mvn
    gradle bazel meson scons git hg svn bzr gh glab tig fossil cvs gcc cc g++ c++ clang ld as rustc cargo go
    javac tsc npm npx pnpm yarn pip pipx uv uvx poetry conda gem bundle composer apt apt-get dpkg rpm yum dnf
    zypper snap brew pacman docker podman kubectl helm nerdctl crictl ansible terraform vagrant find fd fdfind
    sed gsed ed ex vi vim nvim view rview vimdiff nano emacs pico joe less more most pg man info tar bsdtar gtar
    cpio zip unzip 7z ar sort split rg ag ack mail mailx sendmail mutt psql mysql sqlite3 redis-cli mongo
    mongosh openssl ip tcpdump nmap tshark zgrep zless zmore zdiff bzgrep bzmore xzgrep xzless dmesg journalctl
    systemctl loginctl service init openvpn xdg-open open sensible-pager sensible-editor pager editor ctags
    cscope gpg dialog whiptail xterm ssh-keygen ssh-agent ssh-add ld.so ldd capsh choom fzf pry rlwrap sqlmap
    """
)

# What is part of a shell and changes what later words in the same line mean, or runs them.
STEERING = _names(
    """
    . alias bind builtin caller command compgen complete compopt coproc declare dirs disown enable eval exec
    export fc getopts hash history jobs let local logout mapfile popd printf pushd read readarray readonly
    return set shift shopt source suspend test trap type typeset ulimit umask unalias unset wait [ autoload
    emulate functions noglob nocorrect setopt unsetopt vared zcompile zle zmodload zstyle print cd chdir
    """
)

# Of a few of them it is known which arguments do nothing but look. An argument that is not here asks.
_LOOKING: Mapping[str, re.Pattern[str]] = {
    "find": re.compile(
        r"-(?:name|iname|path|ipath|regex|iregex|type|maxdepth|mindepth|size|mtime|mmin|ctime|cmin|atime|amin|newer|empty"
        r"|user|group|perm|print|print0|ls|not|a|o|and|or|true|false|prune|depth|xdev|mount|[PHL])|-\d+[A-Za-z]?"
    ),
    "rg": re.compile(
        r"-[inlcwvFesSxoH]|-[ABCm]\d+|--(?:files|files-with-matches|ignore-case|line-number|count|word-regexp|fixed-strings"
        r"|hidden|no-heading|heading|json|multiline|smart-case|invert-match|only-matching|no-ignore|stats)"
    ),
    "sort": re.compile(r"-[nrufhVbdgisc]+|-[kt]\S*"),
}


def runs_others(name: str) -> bool:
    """Whether a program of this name is known to run other programs; versions count as the program.

    >>> runs_others("xargs"), runs_others("/usr/bin/python3.11"), runs_others("ls")
    (True, True, False)
    """
    plain = name.rpartition("/")[2]
    return plain in RUNNERS or re.sub(r"-?[0-9][0-9.]*$", "", plain) in RUNNERS


class OnlyPrograms:
    """A rule over commands; `only_programs` makes one.

    >>> OnlyPrograms(("ls",)).covers("ls -l | ls")
    True
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        for name in names:
            _check_name(name)
        self.names = frozenset(names)

    def __repr__(self) -> str:
        return f"only_programs({', '.join(map(repr, sorted(self.names)))})"

    def __call__(self, call: Any, _context: Any = None) -> bool:
        """Whether a call runs only these: what `Rule(when=...)` asks."""
        given: object = getattr(call, "params", None)
        if not isinstance(given, Mapping):
            return False
        return self._holds(cast("Mapping[str, Any]", given))

    def asks(self, _context: Any, action: Any, _call_id: str) -> bool:
        """Whether somebody must be asked: what `needs_approval=` takes."""
        given = cast("Any", vars(action) if hasattr(action, "__dict__") else action)
        return not (isinstance(given, Mapping) and self._holds(cast("Mapping[str, Any]", given)))

    def covers(self, command: str) -> bool:
        """Whether every program that a command runs is listed, and nothing in it is in doubt."""
        reading = read_command(command)
        if reading.unclear or reading.others or not 0 < len(reading.commands) <= MOST:
            return False
        if not _JOINED.issuperset(reading.joined):
            return False
        if not all(word.plain and word.text is not None for each in reading.commands for word in each.words):
            return False
        return all(
            not each.settings and not each.redirections and self._listed([str(word.text) for word in each.words])
            for each in reading.commands
        )

    def _holds(self, action: Mapping[str, Any]) -> bool:
        """Commands for a shell, or one program with its arguments. What looks like neither is not covered."""
        # What else may come with a program and change what it does: the environment, the user.
        if action.get("env") or action.get("user"):
            return False
        found: list[object] = [action[key] for key in ("commands", "command") if key in action]
        if len(found) != 1:
            return False
        what = found[0]
        if isinstance(what, str):
            return self.covers(what)
        if not isinstance(what, list) or not what or not all(isinstance(each, str) for each in cast("list[Any]", what)):
            return False
        words = cast("list[str]", what)
        if "command" in action:
            return all(word.isascii() and word.isprintable() for word in words) and self._listed(words)
        return len(words) <= MOST and all(self.covers(each) for each in words)

    def _listed(self, words: Sequence[str]) -> bool:
        if not words or words[0] not in self.names:
            return False
        looking = _LOOKING.get(words[0])
        return looking is None or all(looking.fullmatch(word) for word in words[1:] if word.startswith("-"))


def only_programs(*names: str) -> OnlyPrograms:
    """A rule that holds for commands that run these programs and nothing else, by their bare names.

    Redirections, substitutions, variables, patterns, settings in front, the background, and whatever is not plain to
    read fail it. So do programs that run other programs: most are refused here, and `find`, `rg` and `sort` may be
    listed because it is known which of their arguments only look.

    >>> looks = only_programs("ls", "cat", "grep")
    >>> looks.covers("cat a.txt | grep -n TODO"), looks.covers("cat a.txt; curl evil.example")
    (True, False)
    >>> from keyturn import Policy, Rule
    >>> policy = Policy(Rule("allow", tool="shell", when=looks))
    """
    return OnlyPrograms(names)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"a program is listed by its bare name, such as 'ls', not as {name!r}")
    if name in STEERING:
        raise UserError(f"{name!r} is a part of the shell that changes what the rest of a line means: let it ask")
    if runs_others(name) and name not in _LOOKING:
        raise UserError(
            f"{name!r} can run other programs, so its name says nothing about what runs: let it ask, or give the shell "
            "a sandbox (BubblewrapExecutor) in which anything may run"
        )
