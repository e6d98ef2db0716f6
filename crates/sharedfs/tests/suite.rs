//! Tests of SharedFS, as one program: it is linked once, and its tests share the processors to the end.
//! Apart from them: `full_medium`, which limits the size of the files that its process writes; and `planted`: its bug holds for the
//! whole process.

mod common;

mod damage;
mod digest;
mod extended;
mod hostile;
mod leases;
mod lifecycle;
mod threads;
mod windows;
