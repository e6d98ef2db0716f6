//! Tests of the instruments, as one program: it is linked once, and its tests share the processors to the end.

mod damage;
mod differential;
mod door_fuzz;
mod ext4;
mod family;
mod kernel;
mod kill;
mod kill_writer;
mod linearizability;
mod mount;
mod openers;
mod power;
mod recovery;
mod soak;
mod users;
