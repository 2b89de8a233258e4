# Uses software that the node of a worker has already: a prefix, or a container.
#
# The shell that starts a worker reads this file: POSIX sh, and no Python on the node. Each function either returns, or
# says in one line what is wrong and ends the shell with an exit code of its own.

# The codes of `StartFailure`, which says more about them.
cenote_BROKEN_PYTHON=89
cenote_NO_CONTAINER_RUNTIME=91
cenote_NOT_SEEN=96

cenote_fail() { # CODE WORDS…
    cenote_code=$1
    shift
    printf 'cenote: %s (on %s)\n' "$*" "$(uname -n)" >&2
    exit "$cenote_code"
}

# Says that a Python does not start: of what it wrote, the last line that is not empty.
cenote_no_start() { # WHAT TEXT
    cenote_fail "$cenote_BROKEN_PYTHON" "$1 does not start: $(printf '%s\n' "$2" | sed -n '/[^ ]/h;${x;p;}')"
}

# Variables that packages, then the user (`conda env config vars set`), gave a prefix, as shell.
cenote_of_conda='
import glob, json, os, shlex, sys
prefix, found = sys.argv[1], {}
for name in sorted(glob.glob(glob.escape(prefix) + "/etc/conda/env_vars.d/*.json")) + [prefix + "/conda-meta/state"]:
    if os.path.isfile(name):
        with open(name, encoding="utf-8") as file:
            written = json.load(file)
        found.update(written.get("env_vars", {}) if name.endswith("/state") else written)
for name, value in found.items():
    if name.isidentifier() and name.isascii() and value != "***unset***":
        print(f"export {name}={shlex.quote(str(value))}")
'

# Checks a prefix, and makes it the one that is used, as conda would.
cenote_use_prefix() { # PREFIX
    [ -d "$1/" ] || cenote_fail "$cenote_NOT_SEEN" "there is no folder $1"
    [ -x "$1/bin/python" ] || cenote_fail "$cenote_BROKEN_PYTHON" "there is no Python to run: $1/bin/python"
    cenote_said=$("$1/bin/python" -I -S -B -c "$cenote_of_conda" "$1" 2>&1) || cenote_no_start "$1/bin/python" "$cenote_said"
    export CENOTE_PREFIX="$1" PATH="$1/bin:$PATH"
    [ -d "$1/conda-meta" ] || return 0
    export CONDA_PREFIX="$1"
    eval "$cenote_said"
    set --  # which the packages' scripts would see
    for cenote_script in "$CENOTE_PREFIX"/etc/conda/activate.d/*.sh; do
        if [ -r "$cenote_script" ]; then . "$cenote_script"; fi
    done
    unset cenote_script
}

# Sets `CENOTE_RUNTIME`: the program that runs containers. The last place is where CVMFS has one for all.
cenote_find_runtime() { # PROGRAM…
    for cenote_tool in "$@" /cvmfs/oasis.opensciencegrid.org/mis/apptainer/bin/apptainer; do
        CENOTE_RUNTIME=$(command -v "$cenote_tool" 2>/dev/null) && return 0
    done
    cenote_fail "$cenote_NO_CONTAINER_RUNTIME" "there is no program $*, which containers need"
}

cenote_needs() { # FILE…
    for cenote_file in "$@"; do
        [ -e "$cenote_file" ] || cenote_fail "$cenote_NOT_SEEN" "there is no $cenote_file"
    done
}

# Shows folders inside, under the same paths; those that the node does not have are left out.
cenote_show() { # FOLDER…
    for cenote_folder in "$@"; do
        [ -d "$cenote_folder" ] && [ "$cenote_folder" != / ] || continue
        case $cenote_folder in
            *[,:]*) cenote_fail "$cenote_NOT_SEEN" \
                "$cenote_folder cannot be shown in a container: it has a comma or a colon in its name" ;;
        esac
        CENOTE_BINDS=${CENOTE_BINDS:+$CENOTE_BINDS,}$cenote_folder
    done
}

cenote_show_path() { # FOLDER:FOLDER…
    cenote_rest=$1:
    while [ -n "$cenote_rest" ]; do
        cenote_show "${cenote_rest%%:*}"
        cenote_rest=${cenote_rest#*:}
    done
}

cenote_show_folder_of() { # FILE…
    for cenote_file in "$@"; do
        cenote_show "$(cd "$(dirname "$cenote_file")" 2>/dev/null && pwd)"
    done
}

cenote_try() { # COMMAND…
    cenote_said=$("$@" -I -S -B -c '' 2>&1 </dev/null) || cenote_no_start "Python in the container" "$cenote_said"
}
