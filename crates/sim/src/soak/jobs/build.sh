# A program made by make, gcc, ar and ld from sources that are written anew each time. One that runs and says the right
# thing is a step.
set -euo pipefail
shopt -s inherit_errexit
cd "$PLACE"
programs_kept=3

programs() {
    find . -maxdepth 1 -name '[0-9]*' -printf '%f\n' | sort -n
}

sources() {
    printf '#include <stdio.h>\nint twice(int), thrice(int);\nint main(void) { printf("%%d\\n", twice(%d) + thrice(%d)); return 0; }\n' "$1" "$1" >main.c
    printf 'int twice(int x) { return 2 * x; }\n' >twice.c
    printf 'int thrice(int x) { return 3 * x; }\n' >thrice.c
    printf 'program: main.o library.a\n\tgcc -o $@ $^\nlibrary.a: twice.o thrice.o\n\tar rcs $@ $^\n%%.o: %%.c\n\tgcc -g -c -o $@ $<\n' >Makefile
}

retire() {
    [ "$1" -gt 0 ] || return 0
    echo "leaves $1"
    programs=$(programs)
    for old in $programs; do
        if [ "$old" -le "$1" ]; then
            rm "$old"
        fi
    done
    echo "gone $1"
}

work() {
    rm -rf new temporary
    mkdir temporary
    export TMPDIR=$PLACE/temporary
    last=$(programs | tail -n 1)
    last=${last:-0}
    echo "resume $last"
    while [ ! -e "$STOP" ]; do
        step=$((last + 1))
        mkdir new
        (
            cd new
            sources "$step"
            make -s -j2
            [ "$(./program)" = $((5 * step)) ]
        )
        mv new/program "$step"
        rm -r new
        sum=$(sha256sum <"$step" | cut -d ' ' -f 1)
        echo "kept $step $sum"
        last=$step
        retire $((step - programs_kept))
    done
}

look() {
    programs=$(programs)
    for program in $programs; do
        sum=$(sha256sum <"$program" | cut -d ' ' -f 1)
        echo "found $program $sum"
    done
    # One that is being retired may be cut off; the newest is whole.
    newest=$(programs | tail -n 1)
    [ -z "$newest" ] || [ "$("./$newest")" = $((5 * newest)) ]
}

"$1"
