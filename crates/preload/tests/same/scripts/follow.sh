# tail -f and tail -F without inotify on the store: they poll, and end with the process they are told of.
echo one > log
(sleep 0.3; echo two >> log; sleep 0.3; echo three >> log; sleep 1.3) & writer=$!
tail -f -s 0.1 --pid=$writer log; echo ended
echo a > rotated
(sleep 0.5; mv rotated rotated.1; echo b > rotated; sleep 2.5) & writer=$!
tail -F -s 0.1 --pid=$writer rotated 2>/dev/null; echo ended
: > grow; (for i in 1 2 3 4 5; do echo $i; sleep 0.1; done) | tee -a grow > /dev/null & tail -n +1 -f -s 0.1 --pid=$! grow 2>/dev/null; wait; cat grow
tail -n 2 log; tail -c 4 log; tail -n +2 log; head -n -1 log; tail -q -n1 log rotated; tail missing; seq 100000 > big; tail -n 3 big; tail -n +99999 big; tail -c 12 big
