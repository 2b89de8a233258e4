# Unpacks packed environments on the node of a worker, once for each node, and activates them.
#
# The shell that starts a worker reads this file: POSIX sh, and no Python on the node. `cenote_unpack` either returns
# with the environment active, or says in one line what is wrong and ends the shell with an exit code of its own.
#
# Each archive has, in a folder that belongs to the user alone:
#   DIGEST           the unpacked tree; there from the moment when all of it is
#   DIGEST.lock      locked (flock) by workers that use the tree, and, for itself, by who unpacks or removes it;
#                    its time is that of the last use
#   DIGEST.new       what is being unpacked
#   DIGEST.archive   what is being fetched
#   DIGEST.old       what is being removed
# A tree lists its own files with their sizes (.cenote/files). Those that the node removed or cut off are put back before
# a worker uses the tree, one by one and whole, so that others who use it do not notice.
# A worker inherits the descriptor that holds its lock, so the tree is in use until it ends, however it ends.
#
# A node may say by variables: CENOTE_KEEP_DAYS, after which trees that nobody used are removed (14), and
# CENOTE_LOCK_SECONDS, for which a worker waits for another one that unpacks (600).

# The codes of `StartFailure`, which says more about them.
cenote_MISSING_TOOL=80
cenote_NO_ARCHIVE=81
cenote_CORRUPT_ARCHIVE=82
cenote_NO_SPACE=83
cenote_NO_FOLDER=84
cenote_UNSAFE_FOLDER=85
cenote_NOT_UNPACKED=86
cenote_WRONG_PLATFORM=87
cenote_LONG_PATH=88
cenote_BROKEN_PYTHON=89
cenote_LOCKED=90

cenote_fail() { # CODE WORDS…
    cenote_code=$1
    shift
    printf 'cenote: %s (on %s)\n' "$*" "$(uname -n)" >&2
    exit "$cenote_code"
}

cenote_first_line() { # TEXT
    printf '%s\n' "$1" | sed -n '/./{p;q;}'
}

cenote_last_line() { # TEXT
    printf '%s\n' "$1" | sed -n '$p'
}

cenote_amount() { # BYTES
    if [ "$1" -ge 10000000 ]; then
        echo "$((($1 + 999999) / 1000000)) MB"
    else
        echo "$((($1 + 999) / 1000)) kB"
    fi
}

cenote_tools() { # PROGRAM…
    for cenote_tool in "$@"; do
        command -v "$cenote_tool" >/dev/null 2>&1 ||
            cenote_fail "$cenote_MISSING_TOOL" "there is no program '$cenote_tool', which unpacking needs"
    done
}

# Variables that the folder for environments is named by. `USER` is known also where a batch system does not set it.
cenote_variables() { # NAME…
    for cenote_variable in "$@"; do
        [ "$cenote_variable" != USER ] || : "${USER:=$(id -un)}"
        eval "cenote_value=\${$cenote_variable:-}"
        [ -n "$cenote_value" ] ||
            cenote_fail "$cenote_NO_FOLDER" "\$$cenote_variable, by which 'scratch' names a folder, is not set"
    done
}

# Sets `cenote_home`: the folder of this user's environments, which nobody else can write to.
cenote_find_home() {
    cenote_user=$(id -u)
    if [ -n "${CENOTE_SCRATCH:-}" ]; then
        cenote_make_home "$CENOTE_SCRATCH"
        [ -x "$cenote_home/.runs" ] || cenote_fail "$cenote_NO_FOLDER" \
            "no programs can be run in $cenote_home: its file system is mounted with 'noexec'"
        return
    fi
    # Not $TMPDIR first: batch systems give each job one of its own, and take it away with the job.
    for cenote_base in /var/tmp "${TMPDIR:-/tmp}" /tmp; do
        [ -d "$cenote_base" ] && [ -w "$cenote_base" ] || continue
        cenote_make_home "$cenote_base"
        [ ! -x "$cenote_home/.runs" ] || return 0
    done
    cenote_fail "$cenote_NO_FOLDER" "none of /var/tmp, ${TMPDIR:-\$TMPDIR} and /tmp can be written to and run programs from"
}

cenote_make_home() { # FOLDER
    cenote_home=${1%/}/cenote-env-$cenote_user
    case $1 in
        /*) ;;
        *) cenote_fail "$cenote_NO_FOLDER" "'scratch' must be an absolute path, and is '$1'" ;;
    esac
    if [ ! -d "$cenote_home" ]; then
        cenote_said=$(mkdir -p "$1/" 2>&1 && mkdir -m 700 "$cenote_home" 2>&1) || [ -d "$cenote_home" ] ||
            cenote_fail "$cenote_NO_FOLDER" "$cenote_home cannot be made: $(cenote_first_line "$cenote_said")"
    fi
    case $(ls -ldnL "$1/") in
        d???????w[!tT]*)
            cenote_fail "$cenote_UNSAFE_FOLDER" "everybody may rename what is in $1: it has no sticky bit" ;;
    esac
    cenote_facts=$(ls -ldn "$cenote_home" | { read -r mode links owner rest; echo "$mode, owner $owner"; })
    case $cenote_facts in
        d????-??-?*", owner $cenote_user") ;;
        *) cenote_fail "$cenote_UNSAFE_FOLDER" "$cenote_home must be a folder that only user $cenote_user can write" \
            "to, and is $cenote_facts" ;;
    esac
    # Where a file system is mounted with `noexec`, no file looks as if it could be run.
    [ -f "$cenote_home/.runs" ] || {
        cenote_new=$cenote_home/.runs.$$
        (: >"$cenote_new") && chmod 700 "$cenote_new" && mv -f "$cenote_new" "$cenote_home/.runs"
    } 2>/dev/null || cenote_fail "$cenote_NO_FOLDER" "$cenote_home cannot be written"
}

cenote_check_platform() { # PLATFORM
    [ "$1" != noarch ] || return 0
    cenote_here=$(uname -sm)
    case $cenote_here in
        'Linux x86_64') cenote_here=linux-64 ;;
        'Linux arm64') cenote_here=linux-aarch64 ;;
        'Linux '*) cenote_here=linux-${cenote_here#Linux } ;;
        'Darwin x86_64') cenote_here=osx-64 ;;
        'Darwin '*) cenote_here=osx-${cenote_here#Darwin } ;;
    esac
    [ "$1" = "$cenote_here" ] ||
        cenote_fail "$cenote_WRONG_PLATFORM" "the environment is for $1, and the node is $cenote_here"
}

cenote_sha256() { # FILE
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum <"$1"
    else
        openssl dgst -sha256 -r <"$1"
    fi | sed 's/ .*//'
}

# Whether a file is the archive; sets `cenote_problem` where it is not.
cenote_is_whole() { # FILE DIGEST SIZE
    cenote_found=$(($(wc -c <"$1")))
    if [ "$cenote_found" -ne "$3" ]; then
        cenote_problem="it has $cenote_found bytes instead of $3"
        return 1
    fi
    cenote_found=$(cenote_sha256 "$1")
    cenote_problem="its SHA-256 is $cenote_found instead of $2"
    [ "$cenote_found" = "$2" ]
}

# Sets `cenote_archive`: a whole archive that this node sees; one that is damaged on its way is fetched once more.
cenote_get() { # FILE DIGEST SIZE
    cenote_archive=$1 cenote_code=$cenote_NO_ARCHIVE cenote_problem='it is not there'
    if [ -r "$1" ]; then
        ! cenote_is_whole "$@" || return 0
        cenote_code=$cenote_CORRUPT_ARCHIVE
    fi
    cenote_archive=$cenote_place.archive
    [ -z "${CENOTE_FETCH:-}" ] || for cenote_attempt in 1 2; do
        if cenote_said=$(eval "$CENOTE_FETCH \"\$1\" \"\$cenote_archive\"" 2>&1 </dev/null); then
            [ ! -r "$cenote_archive" ] || ! cenote_is_whole "$cenote_archive" "$2" "$3" || return 0
            cenote_code=$cenote_CORRUPT_ARCHIVE
        else
            cenote_code=$cenote_NO_ARCHIVE
            cenote_problem="it could not be fetched: $(cenote_last_line "$cenote_said")"
        fi
        rm -f "$cenote_archive"
    done
    if [ "$cenote_code" = "$cenote_NO_ARCHIVE" ]; then
        cenote_fail "$cenote_code" "the node cannot get the archive $1: $cenote_problem"
    fi
    cenote_fail "$cenote_code" "the archive $1 is damaged: $cenote_problem"
}

cenote_remove() { # PATH…
    for cenote_old in "$@"; do
        [ ! -e "$cenote_old" ] || rm -rf "$cenote_old" 2>/dev/null ||
            { chmod -R u+rwx "$cenote_old" && rm -rf "$cenote_old"; } 2>/dev/null || :
    done
}

# Removes what was not used for so many days, and what others left half done; never what somebody holds the lock of.
cenote_clean() ( # DAYS
    for lock in "$cenote_home"/*.lock; do
        tree=${lock%.lock}
        [ "$tree" != "$cenote_place" ] || continue
        exec 3>>"$lock"
        flock -x -n 3 || continue
        cenote_remove "$tree.new" "$tree.archive" "$tree.old"
        [ -d "$tree" ] && [ -n "$(find "$lock" -prune -mtime "+$1")" ] || continue
        mv "$tree" "$tree.old" && cenote_remove "$tree.old"
    done
)

cenote_has_space() { # BYTES; sets `cenote_free` to bytes, or to nothing where nobody can tell
    cenote_free=$(df -Pk "$cenote_home" 2>/dev/null | sed -n '2s/.* \([0-9][0-9]*\)  *[0-9]*% .*/\1/p')
    [ -n "$cenote_free" ] || return 0
    cenote_free=$((cenote_free * 1024))
    [ "$cenote_free" -ge "$1" ]
}

cenote_make_space() { # BYTES
    cenote_has_space "$1" || cenote_clean 0
    cenote_has_space "$1" || cenote_fail "$cenote_NO_SPACE" \
        "$cenote_home has $(cenote_amount "$cenote_free") free, and the environment needs $(cenote_amount "$1")"
}

# Unpacks an archive into `new`, as it is to be in its place. In a subshell: it changes the umask and what traps do.
cenote_fill() { # FILE DIGEST SIZE UNPACKED COMPRESSION PLATFORM LONGEST
    umask 077
    new=$cenote_place.new
    trap 'cenote_remove "$new" "$cenote_place.archive"' EXIT
    trap 'exit 143' HUP INT TERM
    cenote_tools tar "$5" find df
    command -v openssl >/dev/null 2>&1 || cenote_tools sha256sum
    length=$(($(printf %s "$cenote_place" | wc -c)))
    [ "$7" -eq 0 ] || [ "$length" -le "$7" ] || cenote_fail "$cenote_LONG_PATH" \
        "$cenote_place has $length characters, and the environment takes paths of at most $7"
    # The path is written into scripts and modules as it is: there it would end a text, or be run.
    case $7$cenote_place in
        0*) ;;
        *[\'\"\`\$\\]*) cenote_fail "$cenote_NO_FOLDER" \
            "an environment cannot be in $cenote_place: files of it would break on the quotes, \$ or \\ in this name" ;;
    esac
    cenote_remove "$new" "$cenote_place.archive" "$cenote_place.old"
    cenote_clean "${CENOTE_KEEP_DAYS:-14}"
    if [ -r "$1" ]; then
        cenote_make_space "$4"
    else
        cenote_make_space "$(($3 + $4))"
    fi
    cenote_get "$1" "$2" "$3"

    said=$({ mkdir "$new" && { "$5" -dc "$cenote_archive" 2>&3 && : >"$new/.whole"; } | tar -xof - -C "$new"; } 3>&1 2>&1)
    status=$?
    if [ "$status" -ne 0 ] || [ ! -f "$new/.whole" ]; then
        case $said in
            *'No space left'* | *'Wrote only'* | *uota*) cenote_fail "$cenote_NO_SPACE" \
                "$cenote_home became full while the environment was unpacked: $(cenote_first_line "$said")" ;;
        esac
        cenote_fail "$cenote_NOT_UNPACKED" "$1 cannot be unpacked in $cenote_home: $(cenote_first_line "$said")"
    fi
    rm -f "$new/.whole" "$cenote_place.archive"

    if [ -e "$new/bin/python" ] || [ -L "$new/bin/python" ]; then
        said=$("$new/bin/python" -I -S -B -c '' 2>&1) || cenote_fail "$cenote_BROKEN_PYTHON" \
            "the environment's Python does not start: $(cenote_last_line "$said")"
    fi
    if [ "$7" -ne 0 ]; then
        said=$(cd "$new" && bin/python -I -S -B .cenote/relocate.py "$cenote_place" 2>&1) || cenote_fail \
            "$cenote_NOT_UNPACKED" "the environment cannot be moved to $cenote_place: $(cenote_last_line "$said")"
    fi
}

# Unpacks an archive, whose lock this shell holds alone.
cenote_make() ( # as cenote_fill
    cenote_remove "$cenote_place"
    cenote_fill "$@"
    said=$({ cenote_files "$new" >"$new/.cenote/files" && cenote_boot >"$new/.cenote/ready" &&
        mv "$new" "$cenote_place"; } 2>&1) || cenote_fail \
        "$cenote_NOT_UNPACKED" "$cenote_place cannot be made: $(cenote_first_line "$said")"
    (exec >/dev/null 2>&1 </dev/null
        { sync -f "$cenote_place" || sync; } && : >"$cenote_place/.cenote/on-disk") &
)

# The files of a tree as lines of size and name, in order: what is compiled at use, and what is ours and changes, left out.
cenote_files() ( # TREE
    LC_ALL=C
    export LC_ALL
    unset TIME_STYLE QUOTING_STYLE BLOCK_SIZE LS_BLOCK_SIZE BLOCKSIZE POSIXLY_CORRECT  # by which ls writes otherwise
    cd "$1" && find . ! -type d ! -path '*/__pycache__/*' ! -path './.cenote/ready' ! -path './.cenote/on-disk' \
        ! -path './.cenote/files' -exec ls -ldn {} + |
        sed 's/^[^ ]*  *[^ ]*  *[^ ]*  *[^ ]*  *\([0-9]*\)  *[^ ]*  *[^ ]*  *[^ ]* /\1 /' | sort
)

# What the tree should have and has not, as `cenote_files` writes it.
cenote_missing() {
    cenote_files "$cenote_place" 2>/dev/null | LC_ALL=C comm -23 "$cenote_place/.cenote/files" - 2>/dev/null
}

# Puts back what is missing in a tree that this shell and others share the lock of; the list of files is the lock of those
# who put back. Exits with 1 where that was no use: the tree is then not there for those who come.
cenote_mend() ( # as cenote_fill
    [ -n "$(cenote_missing)" ] || exit 0
    exec 3<"$cenote_place/.cenote/files" && flock -x 3
    missing=$(cenote_missing)
    [ -n "$missing" ] || exit 0  # somebody else did it
    echo "cenote: the node removed or damaged $(printf '%s\n' "$missing" | grep -c '') files of the environment in" \
        "$cenote_place: they are unpacked again (on $(uname -n))" >&2
    cenote_fill "$@"
    said=$(printf '%s\n' "$missing" | sed 's/^[0-9]* //; s/ -> .*//' | while IFS= read -r file; do
        mkdir -p "$cenote_place/${file%/*}" && mv -f "$new/$file" "$cenote_place/$file" || exit 1
    done 2>&1) && [ -z "$(cenote_missing)" ] && exit 0
    echo "cenote: $cenote_place cannot be mended, and is unpacked again when no worker uses it:" \
        "$(cenote_first_line "$said") (on $(uname -n))" >&2
    rm -f "$cenote_place/.cenote/ready"
    exit 1
)

# Which start of the node this is; nothing where nobody knows.
cenote_boot() {
    cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo
}

# Whether the tree is there, and whole also if the node went down before all of it was on the disk.
cenote_is_there() {
    [ -f "$cenote_place/.cenote/ready" ] && [ -s "$cenote_place/.cenote/files" ] || return 1
    [ -f "$cenote_place/.cenote/on-disk" ] || [ "$(cat "$cenote_place/.cenote/ready")" = "$(cenote_boot)" ]
}

cenote_lock() { # HOW; whether the lock could be taken
    flock "$1" -n "$cenote_fd" 2>/dev/null
    cenote_code=$?
    [ "$cenote_code" -le 1 ] || cenote_fail "$cenote_NO_FOLDER" "the file system of $cenote_home has no locks"
    return "$cenote_code"
}

# Whether the tree is there, with a lock on it that this shell shares: unpacked now, if need be.
cenote_ready() { # as cenote_make
    if ! cenote_is_there; then
        cenote_lock -x || return 1
        cenote_is_there || cenote_make "$@" || exit $?
    fi
    cenote_lock -s || return 1
    ! cenote_is_there || return 0
    flock -u "$cenote_fd"  # it was removed meanwhile
    return 1
}

# The same, and all of it is there.
cenote_whole() { # as cenote_make
    cenote_ready "$@" || return 1
    cenote_mend "$@" && return 0
    cenote_code=$?
    [ "$cenote_code" -eq 1 ] || exit "$cenote_code"
    [ -z "$cenote_again" ] || cenote_fail "$cenote_NOT_UNPACKED" \
        "$cenote_place is damaged as soon as it is unpacked: remove this folder"
    cenote_again=yes
    flock -u "$cenote_fd"
    return 1
}

# An archive is unpacked here if it is not yet, and active afterwards. A LONGEST path of 0 is any.
cenote_unpack() { # FILE DIGEST SIZE UNPACKED COMPRESSION PLATFORM LONGEST
    cenote_check_platform "$6"
    cenote_tools flock
    cenote_find_home
    cenote_place=$cenote_home/${2%"${2#????????????????}"}  # 16 characters
    (: >>"$cenote_place.lock") 2>/dev/null && touch "$cenote_place.lock" 2>/dev/null ||
        cenote_fail "$cenote_NO_FOLDER" "$cenote_home cannot be written"
    cenote_fd=$((${cenote_fd:-10} - 1))  # all shells know descriptors up to 9
    [ "$cenote_fd" -gt 3 ] || cenote_fail "$cenote_NOT_UNPACKED" 'a worker can have at most 6 archives'
    eval "exec $cenote_fd>>\"\$cenote_place.lock\""

    cenote_until= cenote_again=
    until cenote_whole "$@"; do
        cenote_now=$(date +%s)
        cenote_until=${cenote_until:-$((cenote_now + ${CENOTE_LOCK_SECONDS:-600}))}
        [ "$cenote_now" -lt "$cenote_until" ] || cenote_fail "$cenote_LOCKED" \
            "another worker holds $cenote_place.lock for ${CENOTE_LOCK_SECONDS:-600} s"
        sleep 0.2 2>/dev/null || sleep 1
    done
    # Nodes remove what nobody looked at for long from folders like /var/tmp: not parts of what is in use.
    if [ -n "$(find "$cenote_place/.cenote/ready" -prune -mtime +4 2>/dev/null)" ]; then
        touch "$cenote_place/.cenote/ready"
        find "$cenote_place" -exec touch -ach {} + 2>/dev/null
    fi
    CENOTE_HERE=$cenote_place
    set --  # which the packages' scripts would see
    . "$CENOTE_HERE/.cenote/activate.sh"
    unset CENOTE_HERE
    :
}
