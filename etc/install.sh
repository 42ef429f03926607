#!/bin/sh
# Installs ikigai for Linux, upgrades it and removes it.
#
#     sh install.sh [--prefix DIR] [--from URL|DIR]
#     sh install.sh --uninstall [--prefix DIR]
#
# Needs tar, sha256sum, and curl or wget. zstd makes the download smaller; without it, gzip is used.
# minisign or ssh-keygen check the signature of the release, if this script contains its public key.
#
# Each version has a directory of its own, PREFIX/lib/ikigai/VERSION, and PREFIX/bin/ikigai is a link
# into it. So an upgrade replaces one link, and a running program keeps the files that it began with.
# Policies, tools, assets and logs lie elsewhere and are never touched.
#
# Everything is a function, and the last line calls the first: a script that was cut off does nothing.

set -eu
umask 022
LC_ALL=C
export LC_ALL

# `cargo xtask dist` fills these lines.
release_version=''
release_url=''
release_redirect_hosts=''
release_namespace=''
release_ssh_key=''
release_minisign_key=''

# The largest lists and signatures, in bytes. The list of sizes bounds everything else.
largest_list=65536
oldest_glibc=2.28

say() { printf '%s\n' "$*" >&2; }

# die MESSAGE [HINT]
die() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
    exit 1
}

usage() {
    cat <<'END'
Install, upgrade or remove ikigai

Usage: sh install.sh [OPTIONS]

Options:
  --prefix DIR           Install below DIR [default: ~/.local]
  --from URL|DIR         Take the files of the release from URL or DIR [env: IKIGAI_RELEASE_URL]
  --target TRIPLE        Install the build for TRIPLE instead of the one for this machine
  --redirect-host HOST   Follow redirects of the download to HOST; may be repeated
  --require-signature    Fail if the signature cannot be checked
  --force                Replace a newer version, the same version, or another program
  --uninstall            Remove ikigai and keep the data of its users
  --help                 Print this help
END
}

main() {
    prefix=${HOME:+$HOME/.local}
    from=${IKIGAI_RELEASE_URL:-$release_url}
    redirect_hosts=$release_redirect_hosts
    target='' force='' require_signature='' action=install
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix | --from | --target | --redirect-host)
                [ $# -ge 2 ] || die "\`$1\` needs a value"
                case $1 in
                    --prefix) prefix=$2 ;;
                    --from) from=$2 ;;
                    --target) target=$2 ;;
                    --redirect-host) redirect_hosts="$redirect_hosts $2" ;;
                esac
                shift
                ;;
            --require-signature) require_signature=1 ;;
            --force) force=1 ;;
            --uninstall) action=uninstall ;;
            --help | -h) usage && exit 0 ;;
            *) die "unknown option \`$1\`" "sh install.sh --help" ;;
        esac
        shift
    done
    [ -n "$prefix" ] || die "there is no home directory to install into" "use --prefix DIR"
    case $prefix in
        /*) ;;
        *) prefix=$(pwd)/$prefix ;;
    esac
    lib=$prefix/lib/ikigai
    link=$prefix/bin/ikigai
    draft='' locked='' made=''
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    "$action"
}

clean_up() {
    [ -z "$draft" ] || rm -rf "$draft"
    [ -z "$locked" ] || rm -f "$lib/.lock"
    for directory in $made; do
        remove_empty "$directory"
    done
}

# ---- Installing ------------------------------------------------------------------------------

install() {
    [ -n "$release_version" ] || die "this script belongs to no release" "take install.sh of a release"
    need_programs
    find_target
    check_source
    make_directory lib/ikigai
    make_directory bin
    lock
    installed=$(installed_version)
    check_installed

    draft=$lib/.draft.$$
    mkdir "$draft" || die "cannot write to \`$lib\`" "use --prefix DIR"
    fetch_lists
    choose_archive
    fetch_archive
    unpack
    place
    say "Installed ikigai $release_version as $link"
    say "To remove it: sh $lib/$release_version/share/ikigai/install.sh --uninstall --prefix $prefix"
    case ":${PATH:-}:" in
        *":$prefix/bin:"*) ;;
        *) say "note: add $prefix/bin to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

need_programs() {
    for program in tar gzip sha256sum head; do
        has "$program" || die "\`$program\` is missing" "install it with your package manager"
    done
}

has() { command -v "$1" >/dev/null 2>&1; }

find_target() {
    [ -z "$target" ] || return 0
    [ "$(uname -s)" = Linux ] || die "ikigai runs on Linux, and this is $(uname -s)"
    case $(uname -m) in
        x86_64 | amd64) processor=x86_64 ;;
        aarch64 | arm64) processor=aarch64 ;;
        *) die "there is no build for \`$(uname -m)\`; expected x86_64 or aarch64" ;;
    esac
    if is_at_least "$(glibc_version)" "$oldest_glibc"; then
        target=$processor-unknown-linux-gnu
    else
        # The static build runs with an older glibc and with musl.
        target=$processor-unknown-linux-musl
    fi
}

glibc_version() {
    version=$(getconf GNU_LIBC_VERSION 2>/dev/null) || version=''
    case $version in
        'glibc '*) echo "${version#glibc }" ;;
        *) echo 0 ;;
    esac
}

# Makes a directory below the prefix. It is removed again if nothing comes into it.
make_directory() {
    [ -d "$prefix/$1" ] || made="$made $1"
    mkdir -p "$prefix/$1" 2>/dev/null && [ -w "$prefix/$1" ] ||
        die "cannot write to \`$prefix/$1\`" "use --prefix DIR, or run the script as an administrator"
}

# The lock is a link to the number of the process: it appears whole or not at all.
lock() {
    if ln -s "$$" "$lib/.lock" 2>/dev/null; then
        locked=1
        rm -rf "$lib"/.draft.*
        return
    fi
    holder=$(readlink "$lib/.lock" 2>/dev/null) || holder=''
    [ -n "$holder" ] || die "cannot write to \`$lib\`" "is the disk full?"
    if kill -0 "$holder" 2>/dev/null || [ -d "/proc/$holder" ]; then
        die "process $holder installs into \`$lib\`" "wait for it; if it is another program: rm $lib/.lock"
    fi
    # Only one process can rename the lock of a process that has ended.
    mv "$lib/.lock" "$lib/.draft.lock.$$" 2>/dev/null || die "another process began to install" "try again"
    rm -f "$lib/.draft.lock.$$"
    ln -s "$$" "$lib/.lock" 2>/dev/null || die "another process began to install" "try again"
    locked=1
    rm -rf "$lib"/.draft.*
}

# Prints the version that the link leads to.
installed_version() {
    path=$(readlink "$link" 2>/dev/null) || return 0
    case $path in
        ../lib/ikigai/*/bin/ikigai)
            path=${path#../lib/ikigai/}
            echo "${path%%/*}"
            ;;
    esac
}

check_installed() {
    if [ -z "$installed" ]; then
        [ -e "$link" ] || [ -L "$link" ] || return 0
        [ ! -d "$link" ] || die "\`$link\` is a directory"
        [ -n "$force" ] || die "\`$link\` was not installed by this script" "remove it, or use --force"
        return 0
    fi
    [ -z "$force" ] || return 0
    if [ "$installed" = "$release_version" ] && [ -x "$link" ]; then
        say "ikigai $installed is installed already; --force installs it again"
        exit 0
    fi
    if ! is_at_least "$release_version" "$installed"; then
        die "the newer version $installed is installed; this script installs $release_version" \
            "use --force to go back"
    fi
}

# is_at_least A B: compares versions such as 2.28 or 0.2.0-rc.1, which is older than 0.2.0.
is_at_least() {
    left=${1%%-*} right=${2%%-*}
    while [ -n "$left$right" ]; do
        left_number=${left%%.*} right_number=${right%%.*}
        [ "${left_number:-0}" -le "${right_number:-0}" ] || return 0
        [ "${left_number:-0}" -ge "${right_number:-0}" ] || return 1
        case $left in *.*) left=${left#*.} ;; *) left='' ;; esac
        case $right in *.*) right=${right#*.} ;; *) right='' ;; esac
    done
    case $1 in
        *-*)
            # Two suffixes have no order that a shell can tell, so a change of suffix is allowed.
            case $2 in *-*) return 0 ;; *) return 1 ;; esac
            ;;
    esac
    return 0
}

# ---- Downloading -----------------------------------------------------------------------------

check_source() {
    case $from in
        '') die "there is no place to download from" "use --from URL|DIR" ;;
        /*) [ -d "$from" ] || die "\`$from\` is not a directory" ;;
        https://* | http://*)
            from=${from%/}
            source_host=$(host_of "$from")
            check_url "$from/"
            has curl || has wget ||
                die "neither curl nor wget is installed" \
                    "install one of them, or download the release elsewhere and use --from DIR"
            ;;
        *) die "invalid place \`$from\`; expected an absolute path or a URL with https" ;;
    esac
}

host_of() {
    rest=${1#*://}
    echo "${rest%%[/?#]*}"
}

check_url() {
    host=$(host_of "$1")
    case $host in
        '' | *[!A-Za-z0-9.:_-]*)
            case $host in
                '[::1]' | '[::1]':*) ;;
                *) die "refusing the URL \`$1\`: its host is not a plain name" ;;
            esac
            ;;
    esac
    case $1 in
        https://*) ;;
        http://*)
            case $host in
                localhost | localhost:* | 127.0.0.1 | 127.0.0.1:* | '[::1]' | '[::1]':*) ;;
                *) die "refusing to download without https from \`$host\`" ;;
            esac
            case $from in
                https://*) die "refusing a redirect from https to http" ;;
            esac
            ;;
        *) die "refusing the URL \`$1\`; expected https" ;;
    esac
    [ "$host" != "$source_host" ] || return 0
    for allowed in $redirect_hosts; do
        [ "$host" != "$allowed" ] || return 0
    done
    die "refusing a redirect to another host: \`$host\`" "if you trust it, use --redirect-host $host"
}

# fetch NAME LIMIT: gets a file of the release into the draft; returns 1 if the release lacks it.
fetch() {
    case $from in
        /*)
            [ -f "$from/$1" ] || return 1
            head -c "$(($2 + 1))" <"$from/$1" >"$draft/$1" || die_full "$1"
            ;;
        *) download "$from/$1" "$1" "$2" || return 1 ;;
    esac
    size=$(($(wc -c <"$draft/$1")))
    [ "$size" -le "$2" ] || die "\`$1\` is larger than announced, which is $2 bytes"
}

die_full() { die "cannot write \`$1\`" "is the disk of \`$lib\` full?"; }

# download URL NAME LIMIT
download() {
    url=$1 hops=0
    while :; do
        check_url "$url"
        transfer "$url" "$draft/$2" "$3"
        status=$(sed -n 's|^ *HTTP/[0-9.]* *\([0-9]*\).*|\1|p' "$draft/.headers" | tail -n 1)
        # BusyBox's wget follows redirects by itself, so each of them is checked.
        sed -n 's/^ *[Ll][Oo][Cc][Aa][Tt][Ii][Oo][Nn]: *//p' "$draft/.headers" |
            tr -d '\r' | sed 's/ \[following\]$//' >"$draft/.locations"
        while IFS= read -r location; do
            url=$(absolute "$url" "$location")
            check_url "$url"
        done <"$draft/.locations"
        case $status in
            200) break ;;
            301 | 302 | 303 | 307 | 308)
                hops=$((hops + 1))
                [ "$hops" -le 5 ] || die "too many redirects from \`$1\`"
                ;;
            404) return 1 ;;
            '') die "cannot download \`$1\`" "$(tail -n 1 "$draft/.errors")" ;;
            *) die "cannot download \`$1\`: the server answered $status" ;;
        esac
    done
    # The client fails if the reader stopped at the limit, so the size is compared first.
    [ "$(($(wc -c <"$draft/$2")))" -le "$3" ] || return 0
    [ "$(cat "$draft/.status")" = 0 ] ||
        die "the download of \`$2\` was cut off" "$(tail -n 1 "$draft/.errors")"
}

# transfer URL FILE LIMIT: one request, whose body is read up to the limit.
transfer() {
    : >"$draft/.headers" && : >"$draft/.errors" || die_full "$2"
    {
        if has curl; then
            curl --disable --silent --show-error --proto '=http,https' --connect-timeout 30 \
                --speed-limit 1 --speed-time 60 --dump-header "$draft/.headers" -- "$1" \
                2>"$draft/.errors" && code=0 || code=$?
        elif wget --version 2>/dev/null | grep -q GNU; then
            wget --no-config --server-response --max-redirect=0 --timeout=60 --tries=1 \
                --output-document=- -- "$1" 2>"$draft/.headers" && code=0 || code=$?
        else
            # Without a time limit: Debian's BusyBox crashes with one.
            wget -S -O - "$1" 2>"$draft/.headers" && code=0 || code=$?
        fi
        echo "$code" >"$draft/.status"
    } | head -c "$(($3 + 1))" >"$2" || die_full "$2"
    [ -s "$draft/.errors" ] || cp "$draft/.headers" "$draft/.errors"
    [ -s "$draft/.status" ] || die_full "$2"
}

# absolute URL LOCATION: prints the URL of a redirect.
absolute() {
    case $2 in
        *://*) echo "$2" ;;
        //*) echo "${1%%://*}:$2" ;;
        /*) echo "${1%%://*}://$(host_of "$1")$2" ;;
        *) echo "${1%/*}/$2" ;;
    esac
}

# ---- Checking --------------------------------------------------------------------------------

fetch_lists() {
    fetch SHA256SUMS "$largest_list" || die "\`$from\` has no SHA256SUMS, so it is no release"
    check_signature
    fetch SIZES "$largest_list" || die "\`$from\` has no SIZES, so it is no release"
    check_digest SIZES
}

check_signature() {
    if [ -z "$release_minisign_key$release_ssh_key" ]; then
        unchecked "this script contains no public key, so the signature is not checked"
    elif [ -n "$release_minisign_key" ] && has minisign; then
        fetch SHA256SUMS.minisig "$largest_list" || die "the release is not signed: SHA256SUMS.minisig is missing"
        minisign -Vq -P "$release_minisign_key" -m "$draft/SHA256SUMS" -x "$draft/SHA256SUMS.minisig" \
            >/dev/null 2>&1 || die_signature
    elif [ -n "$release_ssh_key" ] && has ssh-keygen; then
        fetch SHA256SUMS.sig "$largest_list" || die "the release is not signed: SHA256SUMS.sig is missing"
        printf 'release %s\n' "$release_ssh_key" >"$draft/.signers" || die_full .signers
        ssh-keygen -Y verify -f "$draft/.signers" -I release -n "$release_namespace" \
            -s "$draft/SHA256SUMS.sig" <"$draft/SHA256SUMS" >/dev/null 2>&1 || die_signature
    elif [ -n "$release_minisign_key" ]; then
        unchecked "minisign is not installed, so the signature is not checked"
    else
        unchecked "ssh-keygen is not installed, so the signature is not checked"
    fi
}

die_signature() { die "SHA256SUMS is not signed with the key of this release"; }

unchecked() {
    [ -z "$require_signature" ] || die "$1"
    say "note: $1; digests show that nothing was damaged, and not who made it"
}

# listed LIST NAME: prints the first word of the line that ends with NAME.
listed() {
    while read -r value name; do
        if [ "$name" = "$2" ]; then
            echo "$value"
            return 0
        fi
    done <"$draft/$1"
    return 1
}

check_digest() {
    expected=$(listed SHA256SUMS "$1") || die "SHA256SUMS does not list \`$1\`"
    found=$(sha256sum <"$draft/$1") || die "cannot read \`$draft/$1\`"
    [ "${found%% *}" = "$expected" ] ||
        die "\`$1\` has another digest than SHA256SUMS says: ${found%% *}, expected $expected"
}

choose_archive() {
    root=ikigai-$release_version-$target
    archive=$root.tar.gz
    if has zstd && listed SHA256SUMS "$root.tar.zst" >/dev/null; then
        archive=$root.tar.zst
    fi
    listed SHA256SUMS "$archive" >/dev/null || die "the release has no build for $target"
}

fetch_archive() {
    announced=$(listed SIZES "$archive") || die "SIZES does not list \`$archive\`"
    case $announced in
        '' | *[!0-9]*) die "SIZES has no size for \`$archive\`" ;;
    esac
    say "Getting $archive ($((announced / 1000000)) MB)"
    fetch "$archive" "$announced" || die "\`$from\` has no $archive"
    size=$(($(wc -c <"$draft/$archive")))
    [ "$size" -eq "$announced" ] ||
        die "\`$archive\` is cut off: $size of $announced bytes" "try again; is the disk full?"
    check_digest "$archive"
}

# ---- Placing ---------------------------------------------------------------------------------

unpack() {
    case $archive in
        *.zst) zstd -dcq -- "$draft/$archive" ;;
        *) gzip -dc -- "$draft/$archive" ;;
    esac | tar -x -C "$draft" -f - || die "cannot unpack \`$archive\`" "is the disk of \`$lib\` full?"
    [ -x "$draft/$root/bin/ikigai" ] || die "cannot unpack \`$archive\`: it has no bin/ikigai"
    rm -f "$draft/$archive"
    "$draft/$root/bin/ikigai" --version </dev/null >/dev/null 2>"$draft/.errors" ||
        die "the program does not start on this machine: $(head -n 1 "$draft/.errors")" \
            "try the static build: --target ${target%-*}-musl"
}

place() {
    version=$lib/$release_version
    if [ -e "$version" ]; then
        mv "$version" "$draft/replaced" || die "cannot replace \`$version\`"
    fi
    if ! mv "$draft/$root" "$version"; then
        [ ! -e "$draft/replaced" ] || mv "$draft/replaced" "$version"
        die "cannot write \`$version\`"
    fi
    for file in $(shared_files "$version"); do
        mkdir -p "$prefix/${file%/*}" && cp "$version/$file" "$prefix/$file" ||
            die "cannot write \`$prefix/$file\`" "is the disk full?"
    done
    ln -s "../lib/ikigai/$release_version/bin/ikigai" "$draft/link" && mv -f "$draft/link" "$link" ||
        die "cannot write \`$link\`"
    remove_old_versions
}

# Prints the completions and manual pages of a version, relative to the prefix. No name has a space.
shared_files() {
    (
        cd "$1" 2>/dev/null &&
            for directory in bash-completion fish man zsh; do
                [ ! -d "share/$directory" ] || find "share/$directory" -type f
            done
    )
}

remove_old_versions() {
    for old in "$lib"/*; do
        [ -d "$old" ] && [ "$old" != "$lib/$release_version" ] || continue
        if [ -n "$(users_of "$old")" ]; then
            say "note: ${old##*/} stays until the next upgrade, because processes run it:$(users_of "$old")"
            continue
        fi
        for file in $(shared_files "$old"); do
            [ -e "$lib/$release_version/$file" ] || rm -f "$prefix/$file"
        done
        rm -rf "$old"
    done
}

# Prints the processes whose program lies below a directory.
users_of() {
    for process in /proc/[0-9]*; do
        program=$(readlink "$process/exe" 2>/dev/null) || continue
        case $program in
            "$1"/*) printf ' %s' "${process#/proc/}" ;;
        esac
    done
}

uninstall() {
    [ -n "$(installed_version)" ] || die "\`$link\` was not installed by this script" "use --prefix DIR"
    lock
    users=$(users_of "$lib")
    [ -z "$users" ] || [ -n "$force" ] ||
        die "ikigai is running, as process$users" "quit your MCP clients, or use --force"
    rm -f "$link" || die "cannot remove \`$link\`"
    for version in "$lib"/*; do
        for file in $(shared_files "$version"); do
            rm -f "$prefix/$file" || die "cannot remove \`$prefix/$file\`"
            remove_empty "${file%/*}"
        done
    done
    rm -rf "$lib" || die "cannot remove \`$lib\`"
    locked=''
    remove_empty lib
    remove_empty bin
    say "Removed ikigai from $prefix"
    say "Your data stays: ~/.ikigai, and ikigai in ~/.config, ~/.local/state, ~/.local/share, ~/.cache"
}

# Removes a directory below the prefix and its parents, as far as they are empty.
remove_empty() {
    empty=$1
    while rmdir "$prefix/$empty" 2>/dev/null; do
        case $empty in
            */*) empty=${empty%/*} ;;
            *) return 0 ;;
        esac
    done
}

main "$@"
