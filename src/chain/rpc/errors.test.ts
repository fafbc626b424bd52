import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import {
  classifySendError,
  isBroken,
  isExecutionError,
  isForgottenState,
  isGivenUp,
  isHurried,
  isInsufficientFunds,
  isMissingMethod,
  isRateLimited,
  isUnknownBlock,
  namedFees,
  revertDataOf,
  type SendRefusal,
} from './errors.ts'
import { RpcError, RpcUnavailable } from './rpc.ts'

/** [expected class, program, code, text, data] with the texts of real nodes. */
const sends: [SendRefusal, string, number, string, unknown?][] = [
  ['known', 'geth', -32000, 'already known'],
  ['known', 'reth', -32000, 'already known'],
  ['known', 'erigon', -32000, 'already known'],
  ['known', 'nethermind', -32010, 'AlreadyKnown'],
  ['known', 'besu', -32000, 'Known transaction'],
  ['known', 'anvil', -32003, 'transaction already imported'],
  ['known', 'zkSync', 3, 'known transaction. transaction with hash 0x6013…3053 is already in the system'],
  ['known', 'erigon', -32000, 'INTERNAL_ERROR: existing tx with same hash'],
  ['known', 'Sei', -32000, 'tx already exists in cache'],
  [
    'nonce_too_low',
    'Nitro',
    -32000,
    'nonce too low: address 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C, tx: 8 state: 9',
  ],
  ['nonce_too_low', 'zkSync', 3, 'nonce too low. allowed nonce range: 427 - 447, actual: 426'],
  ['nonce_too_low', 'OpenEthereum', -32010, 'Transaction nonce is too low. Try incrementing the nonce.'],
  ['nonce_too_high', 'zkSync', 3, 'nonce too high. allowed nonce range: 427 - 477, actual: 527'],
  ['nonce_too_high', 'nethermind', -32010, 'NonceGap, Future nonce. Expected nonce: 10'],
  ['insufficient_funds', 'zkSync', 3, 'insufficient funds for gas + value. balance: 1, fee: 2, value: 0'],
  ['insufficient_funds', 'zkSync', 3, 'not enough balance to cover the fee. error message: it lacks some'],
  ['insufficient_funds', 'Nitro', -32000, 'not enough funds for gas'],
  ['pool_full', 'Nitro', -32000, 'sequencer pending tx pool full, please try again'],
  ['underpriced', 'Nitro', -32000, 'gas price too low'],
  ['nonce_too_low', 'geth', -32000, 'nonce too low: next nonce 5, tx nonce 3'],
  ['nonce_too_low', 'reth', -32000, 'nonce too low: next nonce 5, tx nonce 3'],
  ['nonce_too_low', 'erigon', -32000, 'nonce too low'],
  ['nonce_too_low', 'nethermind', -32010, 'OldNonce, Current nonce: 5, nonce of rejected tx: 3'],
  ['nonce_too_low', 'besu', -32001, 'Nonce too low'],
  ['nonce_too_low', 'anvil', -32003, 'nonce too low'],
  [
    'nonce_too_high',
    'EDR',
    -32000,
    "Nonce too high. Expected nonce to be 5 but got 6. Note that transactions can't be queued when automining.",
  ],
  ['replacement_underpriced', 'geth', -32000, 'replacement transaction underpriced: new tx gas fee cap 100 < 110'],
  ['replacement_underpriced', 'reth', -32000, 'replacement transaction underpriced'],
  ['replacement_underpriced', 'erigon', -32000, 'could not replace existing tx'],
  ['replacement_underpriced', 'nethermind', -32010, 'ReplacementNotAllowed'],
  ['replacement_underpriced', 'besu', -32000, 'Replacement transaction underpriced'],
  ['replacement_underpriced', 'anvil', -32003, 'replacement transaction underpriced'],
  ['underpriced', 'geth', -32000, 'transaction underpriced: gas tip cap 0, minimum needed 1'],
  ['underpriced', 'geth', -32000, 'max fee per gas less than block base fee: address 0x…, maxFeePerGas: 1, baseFee: 7'],
  ['underpriced', 'erigon', -32000, 'fee too low'],
  ['underpriced', 'nethermind', -32010, 'FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 7'],
  ['underpriced', 'besu', -32009, 'Gas price below configured minimum gas price'],
  ['underpriced', 'anvil', -32003, 'max fee per gas less than block base fee'],
  [
    'insufficient_funds',
    'geth',
    -32000,
    'insufficient funds for gas * price + value: balance 0, tx cost 1, overshot 1',
  ],
  ['insufficient_funds', 'reth', -32000, 'insufficient funds for gas * price + value: have 0 want 1'],
  ['insufficient_funds', 'erigon', -32000, 'insufficient funds'],
  ['insufficient_funds', 'nethermind', -32010, 'InsufficientFunds, Account balance: 0, cumulative cost: 1'],
  ['insufficient_funds', 'besu', -32004, 'Upfront cost exceeds account balance'],
  ['insufficient_funds', 'anvil', -32003, 'Insufficient funds for gas * price + value'],
  ['pool_full', 'geth', -32000, 'txpool is full'],
  ['pool_full', 'geth', -32000, 'in-flight transaction limit reached for delegated accounts'],
  ['pool_full', 'reth', -32003, 'txpool is full'],
  ['pool_full', 'erigon', -32000, 'pending sub-pool is full'],
  ['pool_full', 'nethermind', -32010, 'FeeTooLowToCompete'],
  ['known', 'EthereumJS', -32602, '0x6013…3053: this transaction is already in the TxPool'],
  ['replacement_underpriced', 'EthereumJS', -32602, 'replacement gas too low, got tip 0, min: 1, got fee 7, min: 8'],
  ['underpriced', 'EthereumJS', -32602, 'Tx does not pay the minimum gas price of 100000000'],
  ['underpriced', 'EthereumJS', -32602, 'Tx cannot pay basefee of 9, have 4 (not within 50% range of current basefee)'],
  ['pool_full', 'EthereumJS', -32602, 'Cannot add tx: pool is full'],
  ['pool_full', 'EthereumJS', -32602, 'Cannot add tx for 0x01: already have max amount of txs for this account'],
  [
    'insufficient_funds',
    'EthereumJS',
    -32602,
    '0x01 does not have enough balance to cover transaction costs, need 3, but have 2 (insufficient balance)',
  ],
  [
    'nonce_too_low',
    'EthereumJS',
    -32602,
    '0x01 tries to send a tx with nonce 0, but account has nonce 1 (tx nonce too low)',
  ],
  ['rejected', 'EthereumJS', -32602, 'Tx gaslimit of 9 exceeds block gas limit of 8 (exceeds last block gas limit)'],
  ['rejected', 'geth', -32000, 'intrinsic gas too low: gas 20000, minimum needed 21000'],
  ['rejected', 'geth', -32000, 'exceeds block gas limit'],
  ['rejected', 'geth', -32000, 'tx fee (1.10 ether) exceeds the configured cap (1.00 ether)'],
  ['rejected', 'reth', -32003, 'transaction type not supported'],
  ['rejected', 'erigon', -32000, 'invalid sender'],
  ['rejected', 'nethermind', -32010, 'GasLimitExceeded'],
  ['rejected', 'besu', -32000, 'Wrong chainId'],
  ['rejected', 'anvil', -32003, 'intrinsic gas too low'],
  ['rejected', 'geth', -32000, 'insufficient gas for floor data gas cost: gas 21000, minimum needed 40000'],
  ['rejected', 'any', -32000, 'authority nonce too low'],
  ['rejected', 'any', -32000, 'authorization nonce too low: have 1, want 2'],
  ['held_back', 'geth', -32000, 'authority already reserved'],
  ['held_back', 'geth', -32000, 'address already reserved'],
  ['held_back', 'geth', -32000, 'gapped-nonce tx from delegated accounts'],
  ['held_back', 'geth', -32000, 'future transaction tries to replace pending'],
  ['unknown', 'any', 3, 'execution reverted: nonce too low'],
  ['unknown', 'any', -32000, 'execution reverted: already known'],
  ['unknown', 'any', -32015, 'VM execution error.', 'Reverted: insufficient funds'],
  ['unknown', 'any', -32603, 'Internal error'],
  ['unknown', 'any', -32005, 'limit exceeded'],
  ['unknown', 'any', 429, 'Too Many Requests'],
]

for (const [meaning, program, code, text, data] of sends) {
  test(`${program}: "${text.slice(0, 60)}" is ${meaning}`, () => {
    assert.equal(classifySendError(new RpcError(code, text, data)), meaning)
  })
}

test('what a pool names as the least that it takes is read, and nothing else is taken for it', () => {
  const named: [string, object][] = [
    ['transaction underpriced: gas tip cap 1000000000, minimum needed 25000000000', { tip: 25_000_000_000n }],
    ['transaction underpriced: address 0xAb have gas fee cap (15000000) < pool minimum fee cap (25000000000)', { price: 25_000_000_000n }], // prettier-ignore
    ['max fee per gas less than block base fee: address 0xAb, maxFeePerGas: 10, baseFee: 875000000', { baseFee: 875_000_000n }], // prettier-ignore
    ['max fee per gas less than block base fee: address 0xAb, maxFeePerGas: 1 baseFee: 2', { baseFee: 2n }],
    ['FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 7, MaxPriorityFeePerGas: 1', { baseFee: 7n }],
    ['max fee per gas less than block base fee', {}],
    ['transaction underpriced', {}],
    ['intrinsic gas too low: gas 20000, minimum needed 21000', {}],
    ['base fee: 0x0a', {}],
  ]
  for (const [text, fees] of named) assert.deepEqual(namedFees(new RpcError(-32000, text, undefined)), fees, text)
})

test('a broadcast without an answer is unknown, never failed', () => {
  assert.equal(classifySendError(new RpcUnavailable('the node took too long', { timedOut: true })), 'unknown')
  assert.equal(classifySendError(new Error('nonce too low')), 'unknown')
})

const REASON = '0x08c379a00000000000000000000000000000000000000000000000000000000000000020' as const

const reverts: [string, number, string, unknown, string | null | undefined][] = [
  ['geth', 3, 'execution reverted: no', REASON, REASON],
  ['geth, no reason', -32000, 'execution reverted', undefined, null],
  ['geth, gas runs out', -32000, 'gas required exceeds allowance (30000000)', undefined, null],
  ['geth, invalid opcode', -32000, 'invalid opcode: INVALID', undefined, null],
  ['reth', 3, 'execution reverted: no', REASON, REASON],
  ['erigon', 3, 'execution reverted', REASON, REASON],
  ['nethermind, new', 3, 'execution reverted', REASON, REASON],
  ['nethermind, old', -32015, 'VM execution error.', `Reverted ${REASON}`, REASON],
  ['nethermind, text', -32015, 'VM execution error.', 'revert: no', null],
  ['besu', -32000, 'Execution reverted', REASON, REASON],
  ['besu, another code', -32000, 'Transaction processing could not be completed', REASON, REASON],
  ['anvil', 3, 'execution reverted: no', REASON, REASON],
  ['anvil, custom error', 3, 'execution reverted: custom error 0x5b8c9840', '0x5b8c9840', '0x5b8c9840'],
  ['anvil, invalid opcode', -32603, 'EVM error InvalidFEOpcode', undefined, null],
  [
    'hardhat',
    -32603,
    "Error: VM Exception while processing transaction: reverted with reason string 'no'",
    { message: 'x', txHash: `0x${'ab'.repeat(32)}`, data: REASON },
    REASON,
  ],
  [
    'ganache',
    -32000,
    'VM Exception while processing transaction: revert no',
    { [`0x${'cd'.repeat(32)}`]: { error: 'revert', return: REASON }, stack: 'x' },
    REASON,
  ],
  ['wrapped', -32603, 'execution reverted', { originalError: { code: 3, data: REASON } }, REASON],
  ['geth, too little to begin', -32000, 'intrinsic gas too low: have 21000, want 21644', undefined, null],
  ['anvil, memory', -32603, 'EVM error OutOfGas(MemoryLimit): memory limit', undefined, null],
  ['erigon, opcode', -32000, 'opcode 0xef not defined', undefined, null],
  ['no revert', -32000, 'insufficient funds for transfer', undefined, undefined],
  ['no revert', -32000, 'header not found', undefined, undefined],
  ['no revert', -32602, 'invalid argument 0', undefined, undefined],
]

for (const [program, code, text, data, found] of reverts) {
  test(`${program}: revert data of "${text.slice(0, 40)}"`, () => {
    const error = new RpcError(code, text, data)
    assert.equal(revertDataOf(error), found)
    assert.equal(isExecutionError(error), found !== undefined, 'what a write takes for a revert, a read does')
  })
}

test('a node that is away is no revert', () => {
  assert.equal(revertDataOf(new RpcUnavailable('gone', { timedOut: false })), undefined)
})

test('a contract that says "insufficient funds" has reverted; an account without coins has not', () => {
  assert.equal(isInsufficientFunds(new RpcError(3, 'execution reverted: insufficient funds', REASON)), false)
  assert.equal(isInsufficientFunds(new RpcError(-32000, 'insufficient funds for transfer', undefined)), true)
  assert.equal(isInsufficientFunds(new RpcError(-32003, 'Insufficient funds for gas * price + value', undefined)), true)
})

test('data that is no hexadecimal, or too deep, is no data', () => {
  assert.equal(revertDataOf(new RpcError(3, 'execution reverted', '0xzz')), null)
  assert.equal(
    revertDataOf(new RpcError(3, 'execution reverted', { data: { data: { data: { data: { data: REASON } } } } })),
    null,
  )
})

/** [expected class, code, text] with the texts of real nodes and providers for reads. */
const reads: [string, number, string][] = [
  ['unknown block', -32000, 'header not found'],
  ['unknown block', -32001, 'Resource not found'],
  ['unknown block', -32000, 'Unknown block'],
  ['unknown block', -32602, "Block with such an ID doesn't exist yet"],
  ['unknown block, state', -32000, 'missing trie node 1a2b (path ) state 0xcd is not available'],
  ['unknown block, state', -32000, 'state at block #7 is pruned'],
  ['unknown block, state', -32000, 'World state unavailable'],
  ['execution', 3, 'execution reverted: rate limit exceeded'],
  ['execution', -32000, 'execution reverted: too many requests'],
  ['execution', -32000, 'out of gas'],
  ['execution', -32000, 'gas required exceeds allowance (30000000)'],
  ['execution', -32000, 'intrinsic gas too low: have 21000, want 21644'],
  ['execution', -32603, 'EVM error InvalidFEOpcode'],
  ['execution', -32015, 'VM execution error.'],
  ['given up', -32000, 'execution aborted (timeout = 5s)'],
  ['broken', -32603, 'Internal error'],
  ['missing method', -32601, 'the method eth_foo does not exist/is not available'],
  ['limited, hurried', 429, 'Too Many Requests'],
  ['limited, hurried', -32005, 'daily request count exceeded, request rate limited'],
  ['limited, hurried', 429, 'Your app has exceeded its compute units per second capacity.'],
  ['limited, hurried', -32000, 'project has exceeded its throughput capacity'],
  [
    'limited, hurried',
    -32007,
    '50/second request limit reached - reduce calls per second or upgrade your plan: rate limit',
  ],
  ['limited, hurried', -32003, 'API credits exhausted'],
  ['limited', -32005, 'query returned more than 10000 results'],
  ['', -32000, 'insufficient funds for transfer'],
  ['', -32602, 'invalid argument 0'],
]

for (const [meaning, code, text] of reads) {
  test(`${code} "${text.slice(0, 60)}" means: ${meaning === '' ? 'nothing of these' : meaning}`, () => {
    const error = new RpcError(code, text, undefined)
    const is = {
      'unknown block': isUnknownBlock(error),
      state: isForgottenState(error),
      execution: isExecutionError(error),
      'given up': isGivenUp(error),
      broken: isBroken(error),
      'missing method': isMissingMethod(error),
      limited: isRateLimited(error),
      hurried: isHurried(error),
    }
    const held = Object.entries(is).flatMap(([name, isSo]) => (isSo ? [name] : []))
    assert.deepEqual(held, meaning === '' ? [] : meaning.split(', '))
  })
}
