/** What a client says instead of an answer: JSON-RPC code and text. */
export type Words = readonly [code: number, message: string]

/** The error texts of a client, which is all that tells one refusal from another. */
export type Texts = {
  known: Words
  nonceTooLow: Words
  nonceTooHigh: Words
  replacement: Words
  underpriced: Words
  poolFull: Words
  poor: Words
  unknownBlock: Words
  forgottenState: Words
  broken: Words
  limited: Words
  /** of a call that reverts; its data goes along as `data` */
  reverted: Words
}

/** What a node can and cannot do. */
export type Profile = {
  name: string
  /** what it stands for, for the page */
  is: string
  /** milliseconds between blocks */
  blockMs: number
  /** milliseconds between looks of the follower */
  followMs: number
  /** blocks that `finalized` lies below the newest; null where the node has no such tag */
  finalized: number | null
  /** newest blocks that it has the state of */
  states: number
  hasBaseFee: boolean
  /** eth_maxPriorityFeePerGas */
  hasTip: boolean
  /** `null`: the method is there and answers nothing */
  blockReceipts: 'yes' | 'no' | 'null'
  /** block parameters by hash (EIP-1898) */
  takesHashes: boolean
  /** whether the headers, transactions and receipts hash as Ethereum's do */
  isEthereum: boolean
  /** type of the transaction that the network itself puts first into every block */
  systemType: number | null
  /** gas that an estimate has on top of what the machine burns: data on the layer below */
  extraGas: number
  /** as the preset of such a network has it */
  verification: 'bloom' | 'count'
  /** several blocks may have one time */
  sharesTimes: boolean
  /** token transfers of others in each block */
  strangers: number
  texts: Texts
}

/** core/txpool/errors.go, core/error.go, internal/ethapi, triedb/pathdb; code 3 for reverts is internal/ethapi/errors.go. */
const geth: Texts = {
  known: [-32000, 'already known'],
  nonceTooLow: [-32000, 'nonce too low: next nonce 5, tx nonce 3'],
  nonceTooHigh: [-32000, 'nonce too high'],
  replacement: [-32000, 'replacement transaction underpriced: new tx gas fee cap 1 <= 1 queued'],
  underpriced: [-32000, 'transaction underpriced: gas tip cap 0, minimum needed 1'],
  poolFull: [-32000, 'txpool is full'],
  poor: [-32000, 'insufficient funds for gas * price + value: balance 0, tx cost 1, overshot 1'],
  unknownBlock: [-32000, 'header not found'],
  forgottenState: [-32000, 'missing trie node 5a7f (path ) state 0x5a7f is not available'],
  broken: [-32603, 'internal error'],
  limited: [-32005, 'daily request count exceeded, request rate limited'],
  reverted: [3, 'execution reverted'],
}

/** crates/rpc/rpc-eth-types/src/error: RpcPoolError, EthApiError. That of pruned states is ProviderError's. */
const reth: Texts = {
  ...geth,
  nonceTooLow: [-32000, 'nonce too low: next nonce 5, tx nonce 3'],
  replacement: [-32000, 'replacement transaction underpriced'],
  underpriced: [-32000, 'transaction underpriced'],
  poolFull: [-32003, 'txpool is full'],
  poor: [-32003, 'insufficient funds for gas * price + value: have 0 want 1'],
  unknownBlock: [-32001, 'block not found: hash 0x5a7f'],
  forgottenState: [4444, 'state at block 7 is pruned'],
  reverted: [3, 'execution reverted'],
}

/** org.hyperledger.besu.ethereum.api.jsonrpc.internal.response.RpcErrorType: every kind has a code of its own. */
const besu: Texts = {
  ...geth,
  known: [-32000, 'Known transaction'],
  nonceTooLow: [-32001, 'Nonce too low'],
  nonceTooHigh: [-32006, 'Nonce too high'],
  replacement: [-32000, 'Replacement transaction underpriced'],
  underpriced: [-32009, 'Gas price below configured minimum gas price'],
  poor: [-32004, 'Upfront cost exceeds account balance'],
  unknownBlock: [-32000, 'Unknown block'],
  forgottenState: [-32000, 'World state unavailable'],
  broken: [-32603, 'Internal error'],
  reverted: [-32000, 'Execution reverted'],
}

/** arbitrum: nitro executes at once and has no pool; its own texts are those of the state processor. */
const nitro: Texts = {
  ...geth,
  nonceTooLow: [-32000, 'nonce too low: address 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C, tx: 8089 state: 8090'],
  nonceTooHigh: [-32000, 'nonce too high: address 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C, tx: 8089 state: 8088'],
  underpriced: [-32000, 'max fee per gas less than block base fee: address 0x3363, maxFeePerGas: 1, baseFee: 7'],
  poolFull: [-32000, 'sequencer pending tx pool full, please try again'],
}

/** zksync-era core/node/api_server/src/tx_sender/result.rs SubmitTxError; reverts and its own refusals share code 3. */
const zksync: Texts = {
  ...geth,
  known: [3, 'known transaction. transaction with hash 0x6013f0c5…3053 is already in the system'],
  nonceTooLow: [3, 'nonce too low. allowed nonce range: 427 - 447, actual: 426'],
  nonceTooHigh: [3, 'nonce too high. allowed nonce range: 427 - 477, actual: 527'],
  underpriced: [3, 'max fee per gas less than block base fee'],
  poor: [3, 'insufficient funds for gas + value. balance: 1, fee: 2, value: 0'],
  unknownBlock: [-32602, "Block with such an ID doesn't exist yet"],
  reverted: [3, 'execution reverted'],
}

const plain: Omit<Profile, 'name' | 'is'> = {
  blockMs: 150,
  followMs: 50,
  finalized: 12,
  states: 128,
  hasBaseFee: true,
  hasTip: true,
  blockReceipts: 'yes',
  takesHashes: true,
  isEthereum: true,
  systemType: null,
  extraGas: 0,
  verification: 'bloom',
  sharesTimes: false,
  strangers: 0,
  texts: geth,
}

export const PROFILES: readonly Profile[] = [
  { ...plain, name: 'geth', is: 'all methods, state of 128 blocks, `finalized`' },
  { ...plain, name: 'reth', is: 'its error texts, all historical states', states: 10_000, texts: reth },
  {
    ...{ ...plain, name: 'op-geth', is: 'a deposit (type 0x7e) first in every block' },
    ...{ isEthereum: false, systemType: 0x7e },
  },
  {
    ...{
      ...plain,
      name: 'Nitro',
      is: '250 ms blocks, a system transaction in each, layer-1 gas, no tip',
    },
    ...{ blockMs: 250, isEthereum: false, systemType: 0x6a, extraGas: 40_000, sharesTimes: true, texts: nitro },
  },
  {
    ...{
      ...plain,
      name: 'zkSync-like',
      is: 'other headers and filters than Ethereum (`count`), 150,000 more gas, error code 3 for all',
    },
    ...{ isEthereum: false, systemType: 0xff, extraGas: 150_000, verification: 'count', texts: zksync },
  },
  {
    ...{
      ...plain,
      name: 'legacy fees',
      is: 'no base fee, legacy transactions only; Besu’s texts, receipts one by one',
    },
    ...{ hasBaseFee: false, hasTip: false, blockReceipts: 'no', texts: besu },
  },
  { ...plain, name: 'instant finality', is: '`finalized` is the newest block', finalized: 0 },
  { ...plain, name: 'no `finalized`', is: 'neither that tag nor `safe`; block receipts are null', finalized: null, blockReceipts: 'null' }, // prettier-ignore
  { ...plain, name: 'no tip', is: 'no `eth_maxPriorityFeePerGas`', hasTip: false },
  { ...plain, name: '128 states', is: 'finality 200 blocks below, state of 128 blocks', finalized: 200 },
  {
    ...{ ...plain, name: '250 ms blocks', is: 'real time, followed with default settings; four blocks share a second' },
    ...{ blockMs: 250, followMs: 250, sharesTimes: true },
  },
  { ...plain, name: 'numbers only', is: 'block parameters by number only (before EIP-1898)', takesHashes: false },
  {
    ...{
      ...plain,
      name: 'no block receipts',
      is: 'no `eth_getBlockReceipts`, three foreign transfers in each block: read by logs',
    },
    ...{ blockReceipts: 'no', strangers: 3 },
  },
]
