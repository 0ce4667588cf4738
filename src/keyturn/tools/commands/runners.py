"""Tables of programs that run other programs, that write, and of variables that steer a shell; never complete.

Programs are here that take another as an argument, find one in their configuration or among their plugins, or read a
text as one: their names say nothing about what runs. Every name that GTFOBins lists for a shell, a command or a
library is among them.
"""

from __future__ import annotations

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


RUNNERS = _names(
    """
    7z 7za 7zr aa-exec aarch64 abcl abduco acat ack actionlint adiff ag airflow alacritty alpine als amp anacron
    ansible ansible-playbook ansible-test ant aoss apack apk apport-cli apptainer apt apt-get apt-key aptitude ar arc
    arepack argocd aria2c artisan as asciinema asdf ash asterisk astro asy at atom atool aunpack autoconf automake
    automator autoreconf autossh ava awk aws az babel background backtick bandit basedpyright bash bat batcat batch
    bats bazel bazelisk bb bbe bc bconsole bear behave bfs bison bltwish bmake borg bpftrace bpython brew broot
    browserify bsdcpio bsdtar buck buck2 buf build buildah bun bundle bundler bunx busctl busybox bwrap byebug byobu
    bzcmp bzdiff bzegrep bzfgrep bzgrep bzless bzmore bzr c++ c8 c89 c99 cabal caffeinate calife cap capnp capsh cargo
    catchsegv catman cc ccache ccl cdist cdk certbot cgexec cheat check_by_ssh check_ssl_cert checkinstall chef-client
    chez chicken choom chpst chromium chronic chroot chrt chsh ci circusd clang clang++ clang-tidy clickhouse
    clickhouse-client clisp clj clojure clush cmake cmd co cobc code codium colima colordiff composer conda context
    convert corepack coreutils coverage cowsay cowthink cpack cpan cpio cppcheck cpulimit cqlsh crash crictl crond
    crontab cross crun crystal cscope csh csi csvsql csvtool ctags ctest ctr cu curl cursor cvs cypher-shell cypress
    daemon daemonize dagger dar darcs dart dash dbclient dbt dbus-launch dbus-run-session dbus-send dbx dc ddd
    deb-systemd-helper deb-systemd-invoke debconf debootstrap debugfs debuild delta deno devbox devenv dialog
    diff-so-fancy diff3 difft direnv distcc distrobox dlv dmenu dmenu_run dmesg dnf doas docker docker-compose doctl
    doit dosbox dotnet dotnet-script dpkg dpkg-deb drush dsh dstat dtach dtrace dtruss dtrx duckdb dumb-init dune
    duplicacy duplicity dvc dvipdf dvipdfm dvipdfmx dvips dvtm dwdiff earthly easy_install easybuild eatmydata eb ecl
    ed editor electron elinks elixir elvis elvish emacs emacsclient ember emerge encfs enscript entr env envdir
    envuidgid eps2eps erl erlc esbuild escript eslint etcdctl evim ex execlineb exiftool exo-open expect expo fab
    fabric facter fakechroot fakeroot fakeroot-ng faketime fastlane fcron fd fdfind fennel fetchmail file-rename find
    firefox firejail fish flake8 flatpak flex flit flock flutter flux fly flyctl fnm foot forbacktickx foreground
    foreman forever forx fossil fsck fsharpi fsi fswatch ftp ftps fusermount fusermount3 fx fzf g++ g77 gallery-dl gap
    gawk gcc gchroot gcl gcloud gcore gcov gdb gdbserver gdbus gedit gem genie genv getmail gfind gforth gfortran gh
    ghc ghci ghostscript gimp ginsh ginstall gio git git-lfs gitk gitui gjs glab gleam global gmake gnice gnohup
    gnome-terminal gnuplot go go-task goawk gojq golangci-lint google-chrome gopass gopls goreleaser gosh gosu gp gpg
    gpg2 gprof gprofng gracket gradle grc groff groovy grunt gs gsed gsort gsplit gst gstdbuf gsutil gtags gtar
    gtester gtimeout guard guile guix gulp gulp-cli gunicorn gvim gvimdiff gvpr gxargs hatch hdfs helix helm hermes
    heroku hg hhvm hive hivemind hping3 http httpie https hub hugo husky hx hy hyperfine i386 i486 i586 i686 icdiff
    icecc idea identify iex ifelse ifne iftop igawk imv influx info init inkscape inotifywait inotifywatch install inv
    invoke iojs ionice ip ip6tables iptables ipython irb ispell jasmine java javac jdb jed jekyll jest jimsh jj jjs
    jmacs jmeter joe journalctl jq jruby jrunscript js jsc jsh jshell jsonnet jtag julia jupyter just jython k3d k3s
    k9s kafka kak karma kate kawa kde-open kdiff3 keep-one-running kermit kernprof kind kitty knife konsole kopia
    kotlin kotlinc krsh ksh ktrace kubectl kubectx kubens kustomize lab latex latexmk lazygit ld ld.so ldconfig ldd
    lein lerna less less.sh lessfilter lesskey lesspipe lex lf lftp lftpget libreoffice libtool limactl links
    lint-staged linux32 linux64 lldb locust loginctl logrotate logsave ltrace lua luajit lualatex luatex lxc
    lxc-attach lxc-execute lxd lxterm lynx lzcmp lzdiff lzgrep lzless lzmore m4 machinectl mage magick mail maildrop
    mailx make mamba man mandb mariadb matlab maven mawk maxima mbsync mc mcedit meld memray merge meson mf mg micro
    microdnf micromamba mill minicom minikube mise mispipe mitmproxy mix mkdocs mkfs mksh mksquashfs mlr mmdc
    mmdebstrap moar mocha modd modprobe mogrify mongo mongosh monit mono moon more mosh most mount mpiexec mpirun
    mplayer mpost mpv msbuild msfconsole msgexec msgfilter multipass multitail multitime mutt mvn mvnw mycli mypy
    mysql nano nano-tiny nawk nc ncat ncdu ncftp ne neofetch neomutt neovide nerdctl netcat netlify newgrp newlisp
    newsboat next nextflow nice nim nimble ninja nix nix-build nix-env nix-shell nm nmap nmh nnn node nodejs nodemon
    nodenv nohup nomad nose2 nosetests nox npm npm-run-all npx nq nroff nsenter nsxiv nu numactl nuxt nvim nvm nx nyc
    oc ocaml ocamlfind ocamlrun octave octave-cli odin offlineimap oil okteto opam open openssl openvpn original-awk
    osascript osh ov overmind p4 p7zip packer pacman pager pandoc pants parallel parallel-ssh parcel paver pax
    pbuilder pdb pdf2dsc pdf2ps pdflatex pdftex pdksh pdm pdsh pear pecl pee perf perl perl-rename perlbug perldoc
    perltidy pest petite pexec pf2afm pfbtopfa pforth pg pg_ctl pgcli php phpcbf phpcs phpstan phpunit pic pico
    picocom picolisp pidstat pig pijul pil pinfo pip pipenv pipx pixi pkexec pkg pkgin play playwright please plz pm2
    pnpm podman poetry port posh powershell pre-commit prefect prename prettier prlimit procmail proot protoc
    proxychains proxychains-ng proxychains4 pry ps2ascii ps2pdf ps2pdf12 ps2pdf13 ps2pdf14 ps2ps psalm psftp psql pssh
    pt ptpython pueue pulumi puma puppet pwncat pwsh py py-spy py.test pyenv pygmentize pylint pypy pyre pyright
    pyspark pytest python pytype q qbs qemu qjs qmake qml quilt qutebrowser R r racket rackup raco rails rake raku
    rakudo ranger rbash rbenv rc rclone rcs rdiff-backup rdmd rdoc rebar3 rec redis-cli redo reflex remake rename repo
    restic rexec rg rga rhino ri rlogin rlwrap rmic robot rofi rollup rpm rpmbuild rpmdb rpmquery rpmverify rr Rscript
    rsh rsnapshot rspec rsync rsyslogd rtorrent rubocop ruby run-mailcap run-one run-one-constantly run-parts
    run-this-one run0 runc runcon runghc runit runit-init runscript runsv runuser rush rust-analyzer rust-gdb rustc
    rustup rview rvim rvm rxvt rye s-nail s6-setuidgid sage salt salt-call sam sash sbcl sbd sbt scala scalac
    scan-build scanmem sccache scheme schroot scilab scons scp screen script scriptlive scrot scsh sdiff sed
    select-editor sem sendmail sensible-editor sensible-pager serverless service setarch setlock setpriv setsid
    setuidgid sftp sg sh shards sidekiq sift singular singularity sk skaffold skim skopeo sls slsh smbclient snakemake
    snap snapcraft socat socket soffice softlimit solargraph sort sox soxi spack spark-shell spark-submit sphinx-build
    split sqlcmd sqlite sqlite3 sqlmap sqlplus squeak ssh ssh-add ssh-agent ssh-keygen sshfs sshpass sshuttle st stack
    standard star start start-stop-daemon startx staticcheck stdbuf stern stg stklos storybook stow strace streamlit
    stylelint su su-exec subl sudo sudoedit super supervisorctl supervisord sv svc svelte-kit svn svnadmin svnlook swc
    swift swiftc swig swipl sxiv sysctl sysdig systemctl systemd-cat systemd-inhibit systemd-nspawn systemd-run
    systemd-socket-activate tap tar task taskset tasksh tc tcc tclsh tcpdump tcsh tdbtool tea tectonic telepresence
    telnet terminator termtosvg terraform terragrunt tex texdoc thor thrift tig tilix tilt time timedatectl timeout
    tini tip tldr tmate tmux tmuxinator tofu toolbox top torify torsocks tox toybox trial troff trunk ts-node tsc
    tshark tslint tsp tsx ttyrec tup turbo twine twistd txiki typst uftrace ug ugrep umount uname26 unar unbuffer
    unicorn unison unshare unzip update-alternatives updatedb urxvt usql utop uv uvicorn uvx uwsgi uxterm v vagrant
    valgrind vault vd vercel vi viddy vidir view vifm vigr vim vim.basic vim.tiny vimdiff vipe vipw virsh virtualenv
    vis visidata visudo vite vitest vlc volatility volta vpnc vue w3m waf wandb wasm-pack wasmer wasmtime watch
    watchexec watchman wdiff webpack weechat wezterm wget wget2 whiptail wine wireshark wish wolframscript wp wrangler
    wsl wslview x-terminal-emulator x-www-browser x86_64 xargs xcodebuild xcrun xdg-open xdg-settings xdg-user-dir
    xdotool xelatex xetex xh xinit xo xonsh xplr xq xsltproc xterm xvfb-run xzcmp xzdiff xzegrep xzfgrep xzgrep xzless
    xzmore yacc yadm yarn yarnpkg yash yosys youtube-dl yq ysh yt-dlp yum zathura zcmp zdiff zed zegrep zellij zfgrep
    zgrep zic zig zile zip zless zmore zrun zsh zstdgrep zstdless zx zypper
    """
)

# What runs nothing and writes: files, devices, the settings of this machine, or signals to other processes.
WRITERS = _names(
    """
    addgroup adduser arj autopep8 biome black bootctl brotli bunzip2 bzip2 cabextract certutil cfdisk chacl chattr
    chcon chfn chgrp chmod chown chpasswd compress cp createdb cryptsetup csplit ctags-universal cwebp dconf dd
    ddrescue delgroup deluser dos2unix dot dropdb e2fsck e2label efibootmgr etags exiv2 fallocate fdisk ffmpeg
    firewall-cmd fstrim fwupdmgr gcp gdd gdisk genisoimage gln gmkdir gmv gofmt goimports gpasswd grm groupadd
    groupdel groupmod grub-install gtee gtouch gtruncate gunzip gzip halt hdparm hostname hostnamectl hwclock iconv
    img2pdf insmod install-info isort jar jpegtran kill killall ldattach lha link ln localectl localedef logger
    losetup lz4 lzip lzma lzop makeindex mcopy mdel mkdir mkfifo mkisofs mknod mkswap mktemp msgfmt msgmerge mv
    mysqldump nasm netplan nft nmcli ntfsresize objcopy ogr2ogr parted passwd patchelf pbcopy pdftk pg_dump pg_dumpall
    pg_restore pigz pkill pngcrush poweroff ptx pvcreate pwck qpdf ranlib rar reboot recode renice rm rmdir rmmod
    rtcwake ruff rustfmt sadf sar setcap setfacl setfattr setterm sfdisk shfmt shred shuf shutdown skill snice sponge
    srm ss strip swapoff swapon tee tesseract touch truncate tune2fs uconv ufw uncompress unix2dos unlink unlz4 unlzma
    unrar unsquashfs unxz unzstd useradd userdel usermod wall wipe wipefs wodim write xclip xmllint xorriso xsel xxd
    xz yapf yasm zopfli zpaq zstd
    """
)

# What is known to look only, whatever its arguments are: it runs nothing, and writes to its output and nowhere else.
LOOKERS = _names(
    """
    arch b2sum base32 base64 basename cal cat cksum cmp column comm cut df diff dig dirname du echo egrep expand expr
    false fgrep fmt fold free grep groups head hexdump host id join ls lsblk lscpu md5sum nl nproc
    numfmt od paste pgrep printenv ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum
    sleep stat strings sum tac tail tr true tsort tty uname unexpand uptime users w wc who whoami
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
    """Return whether a program of this name is known to run others; path, version and capitals are ignored.

    What has such a name as its first part (`docker-compose`, `git-lfs`, `vim.tiny`) is of the same family.

    >>> runs_others("xargs"), runs_others("/usr/bin/python3.11"), runs_others("git-lfs"), runs_others("ls")
    (True, True, True, False)
    """
    return not RUNNERS.isdisjoint(_spellings(name))


def writes(name: str) -> bool:
    """Return whether a program of this name is known to write files, or to change the machine in another way.

    >>> writes("tee"), writes("/bin/mkfs.ext4"), writes("ls")
    (True, False, False)
    """
    return not WRITERS.isdisjoint(_spellings(name))


def _spellings(name: str) -> set[str]:
    plain = name.rpartition("/")[2]
    spelled = {plain, plain.lower()}
    spelled |= {re.sub(r"-?[0-9][0-9.]*$", "", each) for each in spelled}
    return spelled | {re.split(r"[-.]", each, maxsplit=1)[0] for each in spelled}


def steers(setting: str) -> bool:
    """Return whether setting this variable changes what the shell runs.

    >>> steers("PATH=/tmp"), steers("MODE=test")
    (True, False)
    """
    return _STEERING_SETTING.match(setting) is not None
