"""Lists of known programs: local ones, ones that delete, package managers, and ones that use the network."""

from __future__ import annotations

from mainstay.trust.shell.syntax import word_set

# Programs that use no network, run no other program, and write nothing but what `analyse_effects` returns.
LOCAL_PROGRAMS = word_set(
    "ls dir cat tac head tail wc sort uniq cut tr grep egrep fgrep rg ag zgrep echo printf true false test [ [[ : pwd"
    " cd pushd popd dirs date cal basename dirname realpath readlink stat file du df diff cmp comm paste join nl od xxd"
    " hexdump strings seq sleep tee touch mkdir cp ln mv rm rmdir unlink find fd xargs which type whereis command"
    " whoami id groups uname arch nproc uptime free ps env printenv rev fold fmt expand unexpand column jq md5sum md5"
    " sha1sum sha224sum sha256sum sha384sum sha512sum shasum cksum sum b2sum base64 base32 tree export set unset read"
    " local shift exit return break continue wait umask ulimit trap let declare typeset readonly getopts getconf"
    " sed gsed awk gawk mawk nawk gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd zstdcat tar zip unzip chmod"
    " chown chgrp truncate shred dd install mktemp factor expr bc shuf split csplit tsort look locale tty stty clear"
    " nice nohup timeout time stdbuf setsid ionice builtin exec eval sh bash dash ash ksh zsh flock watch less more"
    " numfmt pathchk sync jobs fg bg kill disown times history iconv dos2unix unix2dos pr"
)
DELETING_PROGRAMS = word_set("rm rmdir unlink shred srm wipe trash trash-put rmtrash wipefs blkdiscard")
PACKAGE_MANAGERS = {
    **dict.fromkeys(
        ("pip", "pip3", "pipx", "uv", "conda", "mamba", "poetry", "pdm"), "install download add sync update"
    ),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), "install i add ci update publish exec dlx audit login"),
    **dict.fromkeys(
        ("apt", "apt-get", "dnf", "yum", "apk", "zypper", "pacman", "brew", "port"), "install update upgrade add"
    ),
    **dict.fromkeys(("gem", "cargo", "composer", "bundle"), "install add fetch update publish push search"),
    "go": "get install mod",
}
# Programs that always use the network; the destination is often in their configuration, not in their arguments.
CLOUD_CLIENTS = word_set(
    "aws gcloud gsutil az gh glab hub kubectl oc helm heroku fly flyctl vercel netlify wrangler firebase doctl"
    " linode-cli s3cmd rclone restic borg dropbox mosh rsh rlogin tftp lftp ftp psql mysql redis-cli mongo mongosh"
    " npx uvx bunx docker podman nerdctl terraform ansible tailscale cloudflared ngrok wg openvpn twine svn hg bzr"
    " xdg-open open"
)
HOST_PROGRAMS = {  # programs whose operands are hosts, with their short options that take a value
    **dict.fromkeys(("nc", "ncat", "netcat", "telnet"), "eciIlmMoOpPqswTVxX"),
    **dict.fromkeys(("ping", "ping6", "traceroute", "tracepath", "mtr", "fping"), "cIiMmlpQSsTtWw"),
    **dict.fromkeys(("dig", "nslookup", "host", "drill", "whois", "resolvectl", "getent"), "bcfhkpqtxy"),
}
# Programs that use the network and have no effect beyond the destinations in their arguments.
NETWORK_PROGRAMS = word_set("curl wget wget2 ssh scp sftp rsync mail mailx sendmail") | frozenset(HOST_PROGRAMS)
CURL_SHORT_VALUED = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"
CURL_LONG_VALUED = word_set(
    "abstract-unix-socket cacert capath cert cert-type ciphers config connect-timeout connect-to continue-at"
    " cookie cookie-jar crlfile data data-ascii data-binary data-raw data-urlencode dns-servers doh-url"
    " dump-header form form-string header interface json keepalive-time key key-type limit-rate local-port"
    " mail-from mail-rcpt max-filesize max-redirs max-time netrc-file noproxy oauth2-bearer output output-dir"
    " parallel-max pass preproxy proto proxy proxy-header proxy-user quote range rate referer request"
    " request-target resolve retry retry-delay retry-max-time socks4 socks4a socks5 socks5-hostname speed-limit"
    " speed-time stderr tls-max trace trace-ascii unix-socket upload-file url url-query user user-agent variable"
    " write-out"
)
WGET_LONG_VALUED = word_set(
    "output-document output-file append-output input-file base tries timeout wait directory-prefix header"
    " user-agent post-data post-file body-data body-file method user password referer load-cookies save-cookies"
    " reject accept domains level ca-certificate certificate private-key execute config quota limit-rate"
)
