"""Names of what runs other programs, and of what changes how a shell reads on: facts, and never all of them.

Programs are here that take another as an argument, find one in their configuration, or read a text as one: their
names say nothing about what runs. Every name that GTFOBins lists for a shell, a command or a library is among them.
"""

from __future__ import annotations

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


RUNNERS = _names(
    """
    7z aa-exec ack ag ansible ansible-playbook ansible-test ant aoss apport-cli apt apt-get aptitude ar aria2c as
    asdf ash asterisk at awk aws bash bat batcat batch bazel bc bconsole borg brew bsdtar bun bundle bundler busctl
    busybox bwrap byebug bzgrep bzmore bzr c++ c89 c99 cabal capsh cargo cc cdist certbot check_by_ssh
    check_ssl_cert choom chronic chroot chrt clang clisp cmake cobc code composer conda convert coreutils cowsay
    cowthink cpan cpio cpulimit crash crictl crontab cscope csh csvtool ctags ctest curl cvs dash dbus-run-session
    dc debugfs delta deno dialog direnv distcc dmesg dnf doas docker dotnet dpkg dstat dtach dvips easy_install eb
    ed editor elinks elixir elvish emacs enscript entr env erl eslint ex exiftool expect facter fakeroot fd fdfind
    find firejail fish flock fossil ftp fzf g++ gawk gcc gchroot gcloud gdb gem genie genv gfind gh ghc ghci gimp
    ginsh git glab gmake gnice gnohup go gosu gpg gradle grc groff groovy gs gsed gsort gsplit gstdbuf gtar gtester
    gtimeout guile guix gxargs helm hg hping3 hx hyperfine identify iex ifne iftop info init inotifywait ionice ip
    ip6tables iptables ipython irb ispell java javac jest jjs joe journalctl jq jrunscript jshell jtag julia jupyter
    just kak knife kotlin ksh kubectl latex latexmk lazygit ld ld.so ldconfig ldd less lessfilter lesspipe lftp
    links linux32 linux64 lldb loginctl logrotate logsave ltrace lua luajit lualatex luatex lynx m4 magick mail
    mailx make man mariadb mawk meson micro minicom mise mispipe mix mksh mogrify mongo mongosh more mosh most
    msfconsole msgfilter multitime mutt mvn mypy mysql nano nawk nc ncat ncdu ncftp neofetch nerdctl netcat newgrp
    nice ninja nix nix-shell nmap node nodejs nohup nox npm npx nroff nsenter nu numactl nvim octave open openssl
    openvpn pacman pager pandoc parallel pdb pdflatex pdftex pee perf perl perlbug pexec pg php pic pico pidstat pip
    pipx pkexec pnpm podman poetry posh powershell pre-commit prettier prlimit proot proxychains proxychains4 pry
    psftp psql puppet pwsh pypy pytest python R r racket rake rbash rc rclone redis-cli restic rg rlwrap rpm rpmdb
    rpmquery rpmverify Rscript rsh rsync rsyslogd rtorrent ruby run-mailcap run-parts runcon runghc runscript
    runuser rustc rustup rview rvim sash sbcl scala scanmem scheme scons scp screen script scrot sed sendmail
    sensible-editor sensible-pager service setarch setlock setpriv setsid sftp sg sh slsh smbclient snap socat
    socket softlimit sort split sqlite sqlite3 sqlmap ssh ssh-add ssh-agent ssh-keygen sshfs sshpass
    start-stop-daemon stdbuf strace su su-exec sudo svn swift swipl sysctl systemctl systemd-run tar task taskset
    tasksh tclsh tcpdump tcsh tdbtool telnet terraform tex tig time timedatectl timeout tmate tmux top torify
    torsocks tox toybox troff tsc tshark unbuffer unshare unzip uv uvx vagrant valgrind vi vidir view vim vimdiff
    vipe vite vitest volatility w3m watch watchexec webpack wget whiptail wireshark wish xargs xdg-open xdg-user-dir
    xdotool xelatex xetex xterm xvfb-run xzgrep xzless yarn yash yq yt-dlp yum zathura zdiff zgrep zic zip zless
    zmore zrun zsh zypper
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

# Variables that the shell itself evaluates, or by which it and the loader find what to run.
_STEERING_SETTING = re.compile(
    r"(?:(?:BASH|HIST|LD_|DYLD_)\w*|PATH|IFS|ENV|PS\d|S?RANDOM|SECONDS|OPTIND|LINENO|SHELLOPTS|GLOBIGNORE|EXECIGNORE)\+?="
)


def runs_others(name: str) -> bool:
    """Whether a program of this name is known to run other programs; path, version and capitals count as nothing.

    >>> runs_others("xargs"), runs_others("/usr/bin/python3.11"), runs_others("ls")
    (True, True, False)
    """
    plain = name.rpartition("/")[2]
    spelled = {plain, plain.lower()}
    return not RUNNERS.isdisjoint(spelled | {re.sub(r"-?[0-9][0-9.]*$", "", each) for each in spelled})


def steers(setting: str) -> bool:
    """Whether setting this variable changes what the shell runs.

    >>> steers("PATH=/tmp"), steers("MODE=test")
    (True, False)
    """
    return _STEERING_SETTING.match(setting) is not None
