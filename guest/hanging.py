"""For programs that a guest runs: what hangs is no answer, and where it hangs is one."""

import os
import sys
import threading
import traceback


def tell_after(seconds, what=lambda: ''):
    """Ends the program then, if it still runs, with a line that says where it is, and `what` more."""
    def tell():
        stack = traceback.extract_stack(sys._current_frames()[threading.main_thread().ident])
        places = ', '.join(f'{frame.name} ({frame.lineno})' for frame in stack)
        print(f'wrong: it hangs in {places}; {what()}', flush=True)
        os._exit(1)
    timer = threading.Timer(seconds, tell)
    timer.daemon = True
    timer.start()
