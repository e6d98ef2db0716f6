# A tree of files that tar extracts or cp copies, compared with its source by diff, and renamed into place: that is a
# step. Old ones are removed.
set -euo pipefail
shopt -s inherit_errexit
cd "$PLACE"
trees_kept=3

trees() {
    find . -maxdepth 1 -name '[0-9]*' -printf '%f\n' | sort -n
}

# Of all there is in a tree: names, kinds, modes, times, targets, contents.
sum() {
    (
        cd "$1"
        find . -printf '%p %y %m %T@ %l\n' | sort
        find . -type f -print0 | sort -z | xargs -0 sha256sum
    ) | sha256sum | cut -d ' ' -f 1
}

retire() {
    [ "$1" -gt 0 ] || return 0
    echo "leaves $1"
    trees=$(trees)
    for old in $trees; do
        if [ "$old" -le "$1" ]; then
            rm -r "$old"
        fi
    done
    echo "gone $1"
}

work() {
    rm -rf new
    last=$(trees | tail -n 1)
    last=${last:-0}
    echo "resume $last"
    while [ ! -e "$STOP" ]; do
        step=$((last + 1))
        mkdir new
        if [ $((step % 2)) = 1 ]; then
            tar -xzf "$SOURCE.tar.gz" -C new
        else
            cp -a "$last/." new
            rm new/step
        fi
        diff -r --no-dereference "$SOURCE" new
        echo "$step" >new/step
        mv new "$step"
        sum=$(sum "$step")
        echo "kept $step $sum"
        last=$step
        retire $((step - trees_kept))
    done
}

look() {
    trees=$(trees)
    for tree in $trees; do
        sum=$(sum "$tree")
        echo "found $tree $sum"
    done
}

"$1"
