#![no_main]

libfuzzer_sys::fuzz_target!(init: cuesta_fuzz::seeds::write_if_asked("log_scan"), |bytes: &[u8]| cuesta_fuzz::log_scan(bytes));
