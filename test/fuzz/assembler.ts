import { concatHex, numberToHex, size, toFunctionSelector, type Hex } from 'viem'

/** A piece of EVM code that knows its own place, because jumps and copies need it. Its length is the same everywhere. */
export type Fragment = (at: number) => Hex

/** Opcodes as hexadecimal text, spaces allowed. */
export const op = (text: string): Hex => `0x${text.replaceAll(/\s/g, '')}`
const code =
  (text: string): Fragment =>
  () =>
    op(text)
const push2 = (number: number): string => `61${numberToHex(number, { size: 2 }).slice(2)}`
const push4 = (number: number): string => `63${numberToHex(number, { size: 4 }).slice(2)}`

/** Ends with bytes that lie behind the code of the fragment itself. */
const endWith =
  (ending: 'f3' | 'fd') =>
  (data: Hex): Fragment =>
  (at) => {
    const length = push4(size(data))
    // PUSH4 length, PUSH4 place, PUSH0, CODECOPY, PUSH4 length, PUSH0, ending: 19 bytes
    // The zeros: data that ends like a PUSH would swallow what comes behind it, landing places of jumps too.
    return concatHex([op(`${length} ${push4(at + 19)} 5f39 ${length} 5f ${ending}`), data, `0x${'00'.repeat(32)}`])
  }

/** Any bytes at all, as the answer or as the reason of a revert. */
export const answer = endWith('f3')
export const revert = endWith('fd')
/** So many zero bytes: the memory of the EVM gives them without any code. */
export const answerZeros = (bytes: number): Fragment => code(`${push4(bytes)} 5f f3`)
export const revertZeros = (bytes: number): Fragment => code(`${push4(bytes)} 5f fd`)
/** One word that the EVM itself knows: NUMBER, TIMESTAMP, GAS, CALLER, … */
export const answerOp = (opcode: string): Fragment => code(`${opcode} 5f52 6020 5f f3`)
export const raw = code

/** Runs for ever; `body` must leave the stack as it found it. */
export const loop =
  (body = ''): Fragment =>
  (at) =>
    op(`5b ${body} ${push2(at)} 56`)
/** Fills the stack until it overflows. */
export const overflow: Fragment = (at) => op(`5b 5f ${push2(at)} 56`)
/** Hands the call on, by DELEGATECALL or CALL, and answers what comes back. */
export const forward = (to: Hex, kind: 'delegatecall' | 'call' = 'delegatecall'): Fragment =>
  code(
    `36 5f 5f 37 5f 5f 36 ${kind === 'call' ? '5f 5f' : '5f'} 73 ${to.slice(2)} 5a ${kind === 'call' ? 'f1' : 'f4'} 50 3d 5f 5f 3e 3d 5f f3`,
  )

/**
 * A contract that answers each function its own way and everything else with `otherwise`.
 * @param functions  by signature
 */
export function contract(functions: Record<string, Fragment>, otherwise: Fragment = revertZeros(0)): Hex {
  const entries = Object.entries(functions)
  // PUSH0 CALLDATALOAD PUSH1 e0 SHR, then 11 bytes for each function
  let at = 5 + entries.length * 11
  const otherwiseCode = otherwise(at)
  at += size(otherwiseCode)
  const jumps: Hex[] = []
  const bodies: Hex[] = []
  for (const [signature, fragment] of entries) {
    jumps.push(op(`80 63 ${toFunctionSelector(signature).slice(2)} 14 ${push2(at)} 57`))
    const body = concatHex(['0x5b', fragment(at + 1)])
    bodies.push(body)
    at += size(body)
  }
  return concatHex([op('5f35 60e0 1c'), ...jumps, otherwiseCode, ...bodies])
}

/** `mint(address)`: a Transfer event of one piece, from nobody, so that the history sees the contract. */
export const mint: Fragment = code(
  `6001 5f52 6004 35 5f 7f ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef 6020 5f a3 00`,
)
