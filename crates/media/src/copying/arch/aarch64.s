// Copies whose faults can be repaired, for aarch64. Included by arch/aarch64.rs.
//
// x0, x1 and x2 always describe what is still to be copied, so a fault in a block is repaired by copying the
// rest byte by byte, and a fault there ends the copy with x2 bytes left.

    .text
    .globl cuesta_copy
    .hidden cuesta_copy
    .p2align 4
cuesta_copy:
    cmp     x2, #16
    b.lo    cuesta_bytes_copy
cuesta_block_start:
1:  ldp     x3, x4, [x1]
    stp     x3, x4, [x0]
    add     x1, x1, #16
    add     x0, x0, #16
    sub     x2, x2, #16
    cmp     x2, #16
    b.hs    1b
cuesta_block_end:
cuesta_bytes_copy:
    cbz     x2, cuesta_bytes_end
    ldrb    w3, [x1]
    strb    w3, [x0]
    add     x1, x1, #1
    add     x0, x0, #1
    sub     x2, x2, #1
    b       cuesta_bytes_copy

// (x0 destination, x1 length) -> x0 bytes NOT cleared.
    .globl cuesta_clear
    .hidden cuesta_clear
cuesta_clear:
    mov     x2, x1
2:  cbz     x2, cuesta_bytes_end
    strb    wzr, [x0]
    add     x0, x0, #1
    sub     x2, x2, #1
    b       2b
cuesta_bytes_end:
    mov     x0, x2
    ret

// (x0 instruction pointer) -> x0 where to go on, or 0 if the fault is not one of ours.
    .globl cuesta_recover
    .hidden cuesta_recover
    .p2align 4
cuesta_recover:
    adr     x1, cuesta_block_start
    cmp     x0, x1
    b.lo    3f
    adr     x1, cuesta_block_end
    cmp     x0, x1
    b.lo    4f
    adr     x1, cuesta_bytes_end
    cmp     x0, x1
    b.hs    3f
    mov     x0, x1
    ret
3:  mov     x0, #0
    ret
4:  adr     x0, cuesta_bytes_copy
    ret
