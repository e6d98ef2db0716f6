# One file that sort makes anew, dd copies with an fsync, and mv puts in the place of the one before: that is a step.
set -euo pipefail
shopt -s inherit_errexit
cd "$PLACE"

work() {
    rm -rf temporary
    mkdir temporary
    last=0
    if [ -e current ]; then
        last=$(head -n 1 current)
    fi
    echo "resume $last"
    while [ ! -e "$STOP" ]; do
        step=$((last + 1))
        # Of another length each time, so that what was longer before would show.
        seq $((step + 1)) $((step + 3000 + 997 * (step % 13))) >temporary/numbers
        echo "$step" >temporary/sorted
        sort -T temporary -S 64k -r temporary/numbers >>temporary/sorted
        dd if=temporary/sorted of=temporary/new bs=5000 conv=fsync status=none
        cmp temporary/sorted temporary/new
        sum=$(sha256sum <temporary/new | cut -d ' ' -f 1)
        echo "leaves $last"
        mv temporary/new current
        echo "gone $last"
        echo "kept $step $sum"
        last=$step
    done
}

look() {
    [ -e current ] || return 0
    step=$(head -n 1 current)
    sum=$(sha256sum <current | cut -d ' ' -f 1)
    echo "found $step $sum"
}

"$1"
