// Copies whose faults can be repaired, for x86-64. Intel syntax, included by arch/x86_64.rs.
//
// Contract of every cuesta_copy_*: (rdi destination, rsi source, rdx length) -> rax bytes NOT copied.
// Between cuesta_block_start and cuesta_block_end, rdi, rsi and rdx always describe what is still to be
// copied (a block is stored before they advance), so a fault anywhere there is repaired by copying the
// rest byte by byte from cuesta_block_fixup; that stops at the exact byte that faults, where rcx holds
// what is left.

    .text
    .p2align 6
cuesta_block_start:

// Ordinary stores. Up to 256 bytes without a loop, larger by 128-byte AVX blocks.
    .globl cuesta_copy_avx
    .hidden cuesta_copy_avx
    .p2align 6
cuesta_copy_avx:
    cmp     rdx, 32
    jb      cuesta_copy_small
    cmp     rdx, 64
    ja      2f
1:  // 32..=64
    vmovdqu ymm0, [rsi]
    vmovdqu ymm1, [rsi + rdx - 32]
    vmovdqu [rdi], ymm0
    vmovdqu [rdi + rdx - 32], ymm1
    xor     eax, eax
    vzeroupper
    ret
2:  cmp     rdx, 128
    ja      3f
    // 65..=128
    vmovdqu ymm0, [rsi]
    vmovdqu ymm1, [rsi + 32]
    vmovdqu ymm2, [rsi + rdx - 64]
    vmovdqu ymm3, [rsi + rdx - 32]
    vmovdqu [rdi], ymm0
    vmovdqu [rdi + 32], ymm1
    vmovdqu [rdi + rdx - 64], ymm2
    vmovdqu [rdi + rdx - 32], ymm3
    xor     eax, eax
    vzeroupper
    ret
    .p2align 5
3:  vmovdqu ymm0, [rsi]
    vmovdqu ymm1, [rsi + 32]
    vmovdqu ymm2, [rsi + 64]
    vmovdqu ymm3, [rsi + 96]
    vmovdqu [rdi], ymm0
    vmovdqu [rdi + 32], ymm1
    vmovdqu [rdi + 64], ymm2
    vmovdqu [rdi + 96], ymm3
    add     rsi, 128
    add     rdi, 128
    sub     rdx, 128
    cmp     rdx, 128
    jae     3b
    cmp     rdx, 64
    ja      4f
    cmp     rdx, 32
    jae     1b
    vzeroupper
    jmp     cuesta_copy_small
4:  vmovdqu ymm0, [rsi]
    vmovdqu ymm1, [rsi + 32]
    vmovdqu ymm2, [rsi + rdx - 64]
    vmovdqu ymm3, [rsi + rdx - 32]
    vmovdqu [rdi], ymm0
    vmovdqu [rdi + 32], ymm1
    vmovdqu [rdi + rdx - 64], ymm2
    vmovdqu [rdi + rdx - 32], ymm3
    xor     eax, eax
    vzeroupper
    ret

// Ordinary stores with what every x86-64 has.
    .globl cuesta_copy_sse2
    .hidden cuesta_copy_sse2
    .p2align 6
cuesta_copy_sse2:
    cmp     rdx, 32
    jbe     cuesta_copy_small
    .p2align 5
1:  movdqu  xmm0, [rsi]
    movdqu  xmm1, [rsi + 16]
    movdqu  [rdi], xmm0
    movdqu  [rdi + 16], xmm1
    add     rsi, 32
    add     rdi, 32
    sub     rdx, 32
    cmp     rdx, 32
    jae     1b

// Up to 32 bytes: everything is loaded before anything is stored.
cuesta_copy_small:
    cmp     edx, 16
    jb      1f
    movdqu  xmm0, [rsi]
    movdqu  xmm1, [rsi + rdx - 16]
    movdqu  [rdi], xmm0
    movdqu  [rdi + rdx - 16], xmm1
    xor     eax, eax
    ret
1:  cmp     edx, 8
    jb      2f
    mov     rax, [rsi]
    mov     rcx, [rsi + rdx - 8]
    mov     [rdi], rax
    mov     [rdi + rdx - 8], rcx
    xor     eax, eax
    ret
2:  cmp     edx, 4
    jb      3f
    mov     eax, [rsi]
    mov     ecx, [rsi + rdx - 4]
    mov     [rdi], eax
    mov     [rdi + rdx - 4], ecx
    xor     eax, eax
    ret
3:  test    edx, edx
    jz      4f
    movzx   eax, byte ptr [rsi]
    movzx   ecx, byte ptr [rsi + rdx - 1]
    mov     r8, rdx
    shr     r8, 1
    movzx   r9d, byte ptr [rsi + r8]
    mov     [rdi + r8], r9b
    mov     [rdi], al
    mov     [rdi + rdx - 1], cl
4:  xor     eax, eax
    ret

// Non-temporal stores: the destination is 64-byte aligned, the length a multiple of 64 and not zero.
    .globl cuesta_copy_stream_avx512
    .hidden cuesta_copy_stream_avx512
    .p2align 6
cuesta_copy_stream_avx512:
    cmp     rdx, 256
    jb      2f
    .p2align 5
1:  vmovdqu64 zmm16, [rsi]
    vmovdqu64 zmm17, [rsi + 64]
    vmovdqu64 zmm18, [rsi + 128]
    vmovdqu64 zmm19, [rsi + 192]
    vmovntdq [rdi], zmm16
    vmovntdq [rdi + 64], zmm17
    vmovntdq [rdi + 128], zmm18
    vmovntdq [rdi + 192], zmm19
    add     rsi, 256
    add     rdi, 256
    sub     rdx, 256
    cmp     rdx, 256
    jae     1b
    test    rdx, rdx
    jz      3f
2:  vmovdqu64 zmm16, [rsi]
    vmovntdq [rdi], zmm16
    add     rsi, 64
    add     rdi, 64
    sub     rdx, 64
    jnz     2b
3:  xor     eax, eax
    ret

    .globl cuesta_copy_stream_avx
    .hidden cuesta_copy_stream_avx
    .p2align 6
cuesta_copy_stream_avx:
1:  vmovdqu ymm0, [rsi]
    vmovdqu ymm1, [rsi + 32]
    vmovntdq [rdi], ymm0
    vmovntdq [rdi + 32], ymm1
    add     rsi, 64
    add     rdi, 64
    sub     rdx, 64
    jnz     1b
    xor     eax, eax
    vzeroupper
    ret

    .globl cuesta_copy_stream_sse2
    .hidden cuesta_copy_stream_sse2
    .p2align 6
cuesta_copy_stream_sse2:
1:  movdqu  xmm0, [rsi]
    movdqu  xmm1, [rsi + 16]
    movdqu  xmm2, [rsi + 32]
    movdqu  xmm3, [rsi + 48]
    movntdq [rdi], xmm0
    movntdq [rdi + 16], xmm1
    movntdq [rdi + 32], xmm2
    movntdq [rdi + 48], xmm3
    add     rsi, 64
    add     rdi, 64
    sub     rdx, 64
    jnz     1b
    xor     eax, eax
    ret

// Copies and sums at once: (rdi destination, rsi source, rdx length, rcx sum, r8 multipliers). The length is a multiple of
// 256 and not zero. The sum is 64 bytes that, put before the bytes to come, or taken alone behind the last ones, have the
// CRC of everything so far (folding; Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ"); it
// is not stored if a fault ends the copy. For CPUs with AVX-512 and VPCLMULQDQ:
    .macro cuesta_fold accumulator, multipliers, data
    vpclmulqdq zmm26, \accumulator, \multipliers, 0x00
    vpclmulqdq \accumulator, \accumulator, \multipliers, 0x11
    vpternlogq \accumulator, zmm26, \data, 0x96
    .endm

    .macro cuesta_copy_summed store
    vmovdqu64 zmm24, [rcx]
    vbroadcasti32x4 zmm25, [r8]
    vpxorq  zmm16, zmm16, zmm16
    vpxorq  zmm17, zmm17, zmm17
    vpxorq  zmm18, zmm18, zmm18
    vpxorq  zmm19, zmm19, zmm19
    .p2align 5
1:  vmovdqu64 zmm20, [rsi]
    vmovdqu64 zmm21, [rsi + 64]
    vmovdqu64 zmm22, [rsi + 128]
    vmovdqu64 zmm23, [rsi + 192]
    \store [rdi], zmm20
    \store [rdi + 64], zmm21
    \store [rdi + 128], zmm22
    \store [rdi + 192], zmm23
    cuesta_fold zmm16, zmm25, zmm20
    cuesta_fold zmm17, zmm25, zmm21
    cuesta_fold zmm18, zmm25, zmm22
    cuesta_fold zmm19, zmm25, zmm23
    // The sum before goes into the first bytes only.
    vpxorq  zmm16, zmm16, zmm24
    vpxorq  zmm24, zmm24, zmm24
    add     rsi, 256
    add     rdi, 256
    sub     rdx, 256
    jnz     1b
    vbroadcasti32x4 zmm25, [r8 + 16]
    cuesta_fold zmm16, zmm25, zmm19
    vbroadcasti32x4 zmm25, [r8 + 32]
    cuesta_fold zmm17, zmm25, zmm16
    vbroadcasti32x4 zmm25, [r8 + 48]
    cuesta_fold zmm18, zmm25, zmm17
    vmovdqu64 [rcx], zmm18
    xor     eax, eax
    ret
    .endm

    .globl cuesta_copy_sum_avx512
    .hidden cuesta_copy_sum_avx512
    .p2align 6
cuesta_copy_sum_avx512:
    cuesta_copy_summed vmovdqu64

// As above with non-temporal stores; the destination is 64-byte aligned.
    .globl cuesta_copy_sum_stream_avx512
    .hidden cuesta_copy_sum_stream_avx512
    .p2align 6
cuesta_copy_sum_stream_avx512:
    cuesta_copy_summed vmovntdq

// The same for CPUs without AVX-512: eight accumulators of 32 bytes (AVX2 and VPCLMULQDQ), or of 16 (AVX and PCLMULQDQ), which
// go through 256 bytes in two steps. `mm` is ymm or xmm, `width` its bytes, `spread` loads a multiplier into all of it; the
// other arguments say where among the multipliers those lie that move a sum over eight, four, two and one accumulator.
    .macro cuesta_fold_into mm, accumulator, data
    vpclmulqdq \mm\()8, \mm\()\accumulator, \mm\()15, 0x00
    vpclmulqdq \mm\()\accumulator, \mm\()\accumulator, \mm\()15, 0x11
    vpxor   \mm\()8, \mm\()8, \mm\()\data
    vpxor   \mm\()\accumulator, \mm\()\accumulator, \mm\()8
    .endm

    // The data is stored by the register it is folded from: what another thread makes of the source meanwhile is in both.
    .macro cuesta_copy_fold mm, width, store, accumulator
    vmovdqu \mm\()9, [rsi + \accumulator * \width]
    \store  [rdi + \accumulator * \width], \mm\()9
    cuesta_fold_into \mm, \accumulator, 9
    .endm

    .macro cuesta_copy_summed_by mm, width, store, spread, by_eight, by_four, by_two, by_one
    vmovdqu \mm\()14, [rcx]
    \spread \mm\()15, [r8 + \by_eight]
    .irp accumulator, 0, 1, 2, 3, 4, 5, 6, 7
    vpxor   \mm\()\accumulator, \mm\()\accumulator, \mm\()\accumulator
    .endr
    .p2align 5
1:
    .irp accumulator, 0, 1, 2, 3, 4, 5, 6, 7
    cuesta_copy_fold \mm, \width, \store, \accumulator
    .endr
    vpxor   \mm\()0, \mm\()0, \mm\()14
    vpxor   \mm\()14, \mm\()14, \mm\()14
    add     rsi, 8 * \width
    add     rdi, 8 * \width
    sub     rdx, 8 * \width
    jnz     1b
    \spread \mm\()15, [r8 + \by_four]
    cuesta_fold_into \mm, 0, 4
    cuesta_fold_into \mm, 1, 5
    cuesta_fold_into \mm, 2, 6
    cuesta_fold_into \mm, 3, 7
    \spread \mm\()15, [r8 + \by_two]
    cuesta_fold_into \mm, 0, 2
    cuesta_fold_into \mm, 1, 3
    \spread \mm\()15, [r8 + \by_one]
    cuesta_fold_into \mm, 0, 1
    vpxor   xmm1, xmm1, xmm1
    vmovdqu [rcx], ymm1
    vmovdqu [rcx + 32], ymm1
    vmovdqu [rcx + 64 - \width], \mm\()0
    xor     eax, eax
    vzeroupper
    ret
    .endm

    .macro cuesta_copy_summed_avx2 store
    cuesta_copy_summed_by ymm, 32, \store, vbroadcasti128, 0, 32, 48, 64
    .endm

    .macro cuesta_copy_summed_avx store
    cuesta_copy_summed_by xmm, 16, \store, vmovdqu, 32, 48, 64, 80
    .endm

    .globl cuesta_copy_sum_avx2
    .hidden cuesta_copy_sum_avx2
    .p2align 6
cuesta_copy_sum_avx2:
    cuesta_copy_summed_avx2 vmovdqu

    .globl cuesta_copy_sum_stream_avx2
    .hidden cuesta_copy_sum_stream_avx2
    .p2align 6
cuesta_copy_sum_stream_avx2:
    cuesta_copy_summed_avx2 vmovntdq

    .globl cuesta_copy_sum_avx
    .hidden cuesta_copy_sum_avx
    .p2align 6
cuesta_copy_sum_avx:
    cuesta_copy_summed_avx vmovdqu

    .globl cuesta_copy_sum_stream_avx
    .hidden cuesta_copy_sum_stream_avx
    .p2align 6
cuesta_copy_sum_stream_avx:
    cuesta_copy_summed_avx vmovntdq

cuesta_block_end:

cuesta_block_fixup:
    mov     rcx, rdx
cuesta_bytes_copy:
    rep movsb
cuesta_bytes_fixup:
    mov     rax, rcx
    ret

// (rdi destination, rsi length) -> rax bytes NOT cleared.
    .globl cuesta_clear
    .hidden cuesta_clear
    .p2align 4
cuesta_clear:
    mov     rcx, rsi
    xor     eax, eax
cuesta_bytes_clear:
    rep stosb
    mov     rax, rcx
    ret

// (rdi instruction pointer) -> rax where to go on, or 0 if the fault is not one of ours.
    .globl cuesta_recover
    .hidden cuesta_recover
    .p2align 4
cuesta_recover:
    lea     rax, [rip + cuesta_block_start]
    cmp     rdi, rax
    jb      1f
    lea     rax, [rip + cuesta_block_end]
    cmp     rdi, rax
    jae     1f
    lea     rax, [rip + cuesta_block_fixup]
    ret
1:  lea     rax, [rip + cuesta_bytes_copy]
    cmp     rdi, rax
    je      2f
    lea     rax, [rip + cuesta_bytes_clear]
    cmp     rdi, rax
    je      2f
    xor     eax, eax
    ret
2:  // Both string instructions leave what is left in rcx.
    lea     rax, [rip + cuesta_bytes_fixup]
    ret
