#![no_main]

libfuzzer_sys::fuzz_target!(init: cuesta_fuzz::seeds::write_if_asked("ring"), |bytes: &[u8]| cuesta_fuzz::ring(bytes));
