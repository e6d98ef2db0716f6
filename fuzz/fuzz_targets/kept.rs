#![no_main]

libfuzzer_sys::fuzz_target!(init: cuesta_fuzz::seeds::write_if_asked("kept"), |bytes: &[u8]| cuesta_fuzz::kept(bytes));
