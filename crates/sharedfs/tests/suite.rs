//! Tests of SharedFS, as one program: it is linked once, and its tests share the processors to the end.
//! Apart from them: `full_medium`, which limits the size of the files that its process writes.

mod common;

mod damage;
mod digest;
mod extended;
mod hostile;
mod leases;
mod lifecycle;
mod planted;
mod threads;
