# A repository of git's: a commit is a step. Packed every so often; what a killed git leaves is cleared away as a person would.
set -euo pipefail
shopt -s inherit_errexit
cd "$PLACE"

# It is one thing that there are none, another that git cannot say.
has_commits() {
    local status=0
    git rev-parse -q --verify HEAD >/dev/null || status=$?
    [ "$status" -le 1 ] || exit "$status"
    [ "$status" = 0 ]
}

work() {
    rm -rf temporary
    mkdir temporary
    if [ -d .git ]; then
        find .git \( -name '*.lock' -o -name 'gc.pid' -o -name 'tmp_*' \) -delete
    fi
    git init -q -b main .
    echo temporary/ >.git/info/exclude
    last=0
    if has_commits; then
        last=$(git log -1 --format=%s)
    fi
    echo "resume $last"
    while [ ! -e "$STOP" ]; do
        step=$((last + 1))
        mkdir -p "folder-$((step % 7))"
        seq "$step" $((step + 40 * (step % 11))) >"folder-$((step % 7))/file-$((step % 23))"
        git add -A
        git commit -q -m "$step"
        commit=$(git rev-parse HEAD)
        echo "kept $step $commit"
        last=$step
        if [ $((step % 15)) = 0 ]; then
            git gc -q --prune=now
        fi
    done
}

look() {
    [ -d .git ] || return 0
    if has_commits; then
        git fsck --full --strict --no-dangling --no-progress >&2
        git log --format='found %s %H'
    fi
}

"$1"
