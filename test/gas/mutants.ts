import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Hex } from '../../src/ids.ts'

const root = new URL('../..', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8')
type Solc = { compile(input: string, callbacks: { import(path: string): { contents: string } }): string }
type Contract = { evm: { bytecode: { object: string } } }
type Compiled = {
  errors?: { severity: string; formattedMessage: string }[]
  contracts: Record<string, Record<string, Contract>>
}

/** A mistake in one of the contracts: a text that is there once, and what stands there instead. */
export type GasMutant = {
  file: 'Delegate' | 'Dispatcher' | 'CaliburDispatcher'
  what: string
  old: string
  mistaken: string
}

const mutants: readonly GasMutant[] = [
  {
    file: 'Dispatcher',
    what: 'the id is used up in a frame that the operation reverts',
    old: 'else emit Failed(id, account, _reason());',
    mistaken: 'else { used[id >> 8] &= ~(1 << (id & 0xff)); emit Failed(id, account, _reason()); }',
  },
  {
    file: 'Dispatcher',
    what: 'the id is used up after the call',
    old: `if (!_use(id)) emit Skipped(id, account);
                else if (_run(id, account, place, size)) done++;`,
    mistaken: `if (used[id >> 8] & (1 << (id & 0xff)) != 0) emit Skipped(id, account);
                else { if (_run(id, account, place, size)) done++; _use(id); }`,
  },
  {
    file: 'Dispatcher',
    what: 'the code of the account is not looked at',
    old: 'if (account.codehash != delegation) {',
    mistaken: 'if (false) {',
  },
  {
    file: 'Dispatcher',
    what: 'any code will do',
    old: 'if (account.codehash != delegation) {',
    mistaken: 'if (account.code.length == 0) {',
  },
  {
    file: 'Dispatcher',
    what: 'what the rule of 63/64 leaves is not looked at',
    old: 'if (gasleft() < RESERVE + gasLimit * 64 / 63) revert NotEnoughGas();',
    mistaken: '',
  },
  {
    file: 'Dispatcher',
    what: 'the limit is compared without 64/63',
    old: 'RESERVE + gasLimit * 64 / 63',
    mistaken: 'RESERVE + gasLimit',
  },
  {
    file: 'Dispatcher',
    what: 'the signed gas limit is not a limit',
    old: 'call(gasLimit, account,',
    mistaken: 'call(gas(), account,',
  },
  {
    file: 'Dispatcher',
    what: 'anybody may dispatch and cancel',
    old: 'if (!isSponsor[space][msg.sender]) revert NotSponsor();',
    mistaken: '',
  },
  {
    file: 'Dispatcher',
    what: 'an id is the same in all spaces',
    old: 'uint256 base = uint256(uint160(space)) << 96;',
    mistaken: 'uint256 base = 0;',
  },
  {
    file: 'Dispatcher',
    what: 'a bit stands for 128 ids',
    old: 'uint256 bit = 1 << (id & 0xff);',
    mistaken: 'uint256 bit = 1 << (id & 0x7f);',
  },
  {
    file: 'Dispatcher',
    what: 'operations that are cut off are read on',
    old: 'if (next > end) revert Malformed();',
    mistaken: '',
  },
  {
    file: 'Dispatcher',
    what: 'cancelling does not use the id up',
    old: 'if (_use(id)) emit Cancelled(id);',
    mistaken: 'if (used[id >> 8] & (1 << (id & 0xff)) == 0) emit Cancelled(id);',
  },
  {
    file: 'Delegate',
    what: 'all that a call returns is copied',
    old: 'reason = new bytes(size > MAX_REASON ? MAX_REASON : size);',
    mistaken: 'reason = new bytes(size);',
  },
  {
    file: 'Delegate',
    what: 'a high s counts as well',
    old: 'if (uint256(s) > MAX_S) return false;',
    mistaken: '',
  },
  {
    file: 'Delegate',
    what: 'there is no deadline',
    old: 'if (block.timestamp > deadline) revert Expired();',
    mistaken: '',
  },
  {
    file: 'Delegate',
    what: 'the last second is too late',
    old: 'block.timestamp > deadline',
    mistaken: 'block.timestamp >= deadline',
  },
  {
    file: 'Delegate',
    what: 'the domain has chain id 0',
    old: 'mstore(add(input, 96), chainid())',
    mistaken: 'mstore(add(input, 96), 0)',
  },
  {
    file: 'Delegate',
    what: 'the domain names the delegate, the same for all accounts',
    old: 'mstore(add(input, 128), address())',
    mistaken: 'mstore(add(input, 128), 1)',
  },
  {
    file: 'Delegate',
    what: 'anybody may call execute',
    old: 'if (msg.sender != dispatcher) revert NotDispatcher();',
    mistaken: '',
  },
  {
    file: 'Delegate',
    what: 'any valid signature will do',
    old: 'return signer == address(this);',
    mistaken: 'return signer != address(0);',
  },
  {
    file: 'Delegate',
    what: 'the dispatcher is not signed',
    old: 'mstore(add(input, 32), by)',
    mistaken: 'mstore(add(input, 32), 0)',
  },
  {
    file: 'Delegate',
    what: 'a call that failed is passed over',
    old: 'if iszero(call(gas(), mload(row), mload(add(row, 32)), input, size, 0, 0)) { break }',
    mistaken: 'pop(call(gas(), mload(row), mload(add(row, 32)), input, size, 0, 0))',
  },
  {
    file: 'Delegate',
    what: 'value is not passed on',
    old: 'call(gas(), mload(row), mload(add(row, 32)), input',
    mistaken: 'call(gas(), mload(row), 0, input',
  },
  {
    file: 'Delegate',
    what: 'the nested form does not look at what was asked',
    old: 'bytes(name).length == 0 || hash != _digestOf(separator, contents)',
    mistaken: 'bytes(name).length == 0',
  },
  {
    file: 'Delegate',
    what: 'tokens are refused',
    old: 'return this.onERC721Received.selector;',
    mistaken: 'return bytes4(0);',
  },
  {
    file: 'CaliburDispatcher',
    what: 'anybody may execute what was signed for Calibur',
    old: 'executor: address(this),',
    mistaken: 'executor: address(0),',
  },
  {
    file: 'CaliburDispatcher',
    what: 'an operation for Calibur has no deadline',
    old: 'deadline := shr(216, calldataload(add(place, 36)))',
    mistaken: 'deadline := 0',
  },
  {
    file: 'CaliburDispatcher',
    what: 'Calibur does what it can of a batch that fails',
    old: 'revertOnFailure: true}',
    mistaken: 'revertOnFailure: false}',
  },
  {
    file: 'CaliburDispatcher',
    what: 'the gas limit is not in the nonce of Calibur',
    old: 'keccak256(abi.encode(id, gasLimit))',
    mistaken: 'keccak256(abi.encode(id, 300_000))',
  },
  {
    file: 'CaliburDispatcher',
    what: 'the id is not in the nonce of Calibur',
    old: 'keccak256(abi.encode(id, gasLimit))',
    mistaken: 'keccak256(abi.encode(gasLimit, gasLimit))',
  },
  {
    file: 'CaliburDispatcher',
    what: 'something may follow the calls',
    old: 'calls.length > 0 && next == packed.length',
    mistaken: 'calls.length > 0',
  },
  {
    file: 'CaliburDispatcher',
    what: 'a list without a call is one',
    old: 'calls.length > 0 && next == packed.length',
    mistaken: 'next == packed.length',
  },
  {
    file: 'CaliburDispatcher',
    what: 'data that is cut off is read',
    old: 'if (packed.length < next + dataSize) return (false, calls);',
    mistaken: '',
  },
  {
    file: 'CaliburDispatcher',
    what: 'the parity of a signature is lost',
    old: 'uint8(27 + (uint256(vs) >> 255))',
    mistaken: 'uint8(27)',
  },
]

/** Repeats each mutation of code that both dispatchers share, once per dispatcher. */
export const gasMutants: readonly GasMutant[] = mutants.flatMap((one) =>
  one.file === 'Dispatcher' ? [one, { ...one, file: 'CaliburDispatcher', what: `${one.what}, for Calibur` }] : [one],
)

/** The sources as they are committed. */
export const gasSources = (): Record<GasMutant['file'], string> => ({
  CaliburDispatcher: read('contracts/CaliburDispatcher.sol'),
  Delegate: read('contracts/Delegate.sol'),
  Dispatcher: read('contracts/Dispatcher.sol'),
})

/** @returns the bytecode that deploys a dispatcher; our own makes the delegate. @throws Error  where it does not compile */
export function compileGas(
  sources: ReturnType<typeof gasSources>,
  name: 'Dispatcher' | 'CaliburDispatcher' = 'Dispatcher',
): Hex {
  const solc = createRequire(new URL('package.json', root))('solc') as Solc
  const input = {
    language: 'Solidity',
    sources: Object.fromEntries(
      Object.entries(sources).map(([name, content]) => [`contracts/${name}.sol`, { content }]),
    ),
    settings: {
      evmVersion: 'cancun',
      optimizer: { enabled: true, runs: 200 },
      metadata: { appendCBOR: false, bytecodeHash: 'none' },
      outputSelection: { [`contracts/${name}.sol`]: { [name]: ['evm.bytecode.object'] } },
    },
  }
  const callbacks = { import: (path: string) => ({ contents: read(`node_modules/${path}`) }) }
  const { errors = [], contracts } = JSON.parse(solc.compile(JSON.stringify(input), callbacks)) as Compiled
  const wrong = errors.filter(({ severity }) => severity === 'error')
  if (wrong.length > 0) throw new Error(wrong.map(({ formattedMessage }) => formattedMessage).join('\n'))
  return `0x${contracts[`contracts/${name}.sol`]![name]!.evm.bytecode.object}`
}
