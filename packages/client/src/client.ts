import {
  type AbiSource,
  type ContractCall,
  type FunctionOf,
  type Output,
  type ResultOf,
  invalid,
  resultOf,
  wireCallOf,
} from './abi.ts'
import { openList, type List } from './list.ts'
import { type CallOptions, type ClientOptions, errorOf, openRequests, type WriteOptions } from './request.ts'
import { handleOf, type Submission, type TransactionHandle } from './transaction.ts'
import type { ClientError } from './errors.ts'
import type {
  Approval,
  Balance,
  GasPayer,
  Hex,
  LogEntry,
  Me,
  Operation,
  OwnSignature,
  Problem,
  Recipient,
  RuleLimit,
  Signed,
  SignSimulation,
  SimulatedTransaction,
  SubmittedTransaction,
  Transaction,
  TransactionState,
  Transfer,
  User,
  Verification,
} from './wire.ts'

export type BlockTag = 'latest' | 'finalized' | number

/** A view call. `sender`: run it with the user as `msg.sender`. */
export type ReadCall<A extends AbiSource, N extends string = string> = ContractCall<A, N> & {
  sender?: boolean
  blockTag?: BlockTag
}

/** A write. `value` in wei; `gas` is a limit, estimated if absent. */
export type WriteCall<A extends AbiSource, N extends string = string> = ContractCall<A, N> & {
  value?: bigint
  gas?: bigint
}

/** A write whose types the compiler does not follow, for batches. */
export type BatchCall = {
  address: string
  abi: AbiSource
  functionName?: string
  args?: readonly unknown[]
  value?: bigint
}

/** Encoded calldata. `value` in wei; `abi` decodes reverts. */
export type SendRequest = { to: string; data?: string; value?: bigint; gas?: bigint; abi?: string }

/** A recipient: an address, a user id (`DISCORD-8035…`), or the name of exactly one user at a provider. */
export type To = string | { provider: string; username: string }

/**
 * A transfer. Without `token` native currency; with `tokenId` an ERC-721, and with `amount` too an ERC-1155.
 * `amount`: decimal text in whole units (`'1.5'`), or a bigint in the smallest unit.
 */
export type TransferRequest = { to: To; token?: string; amount?: string | bigint; tokenId?: bigint | string }

/** A message: a text, or bytes as 0x-hex. */
export type MessageInput = string | { hex: string }

/** EIP-712 typed data. Integers are bigints or decimal text. */
export type TypedData = { domain?: object; types: object; primaryType: string; message: object }

/** What is to be checked: exactly one of the three messages. */
export type VerifyRequest = { address: string; signature: string } & (
  | { message: string }
  | { hex: string }
  | { typedData: TypedData }
)

/** Filters of the history. `from` and `to`: ISO 8601 with a zone, or a date. */
export type HistoryFilter = {
  limit?: number
  type?: readonly Transfer['tokenType'][]
  direction?: 'in' | 'out' | 'all'
  token?: string
  counterparty?: string
  from?: string
  to?: string
  fromBlock?: number
  toBlock?: number
  finality?: 'finalized'
  /** list native currency in addition to the token types */
  include?: 'native'
  includeSpam?: boolean
}

/** Blocks between which a page of the history is complete; null: unknown. */
export type HistoryRange = {
  indexedFrom: number | null
  indexedTo: number | null
  finalizedTo: number | null
  nativeFrom: number | null
  nativeInternalFrom: number | null
}

/** A write that the service has stored. */
export type Write = TransactionHandle &
  Submission & { readonly tx: SubmittedTransaction; readonly operation?: Operation; readonly gas?: GasPayer }

/** A transfer that the service has stored. `amount` is in the smallest unit. */
export type SentTransfer = TransactionHandle & Submission & { readonly recipient: Recipient; readonly amount: bigint }

/** What a write would do. `gas` in units; `fee` is the highest fee in wei, without the value. */
export type WriteSimulation<R = unknown> = {
  result: R
  gas: bigint
  fee: bigint
  rule: string
  approval: 'required' | 'not_required'
  limits?: RuleLimit[]
  tx: SimulatedTransaction
  operation?: Operation
}

/** What a transfer would do. Amounts as in `WriteSimulation`; `amount` in the smallest unit. */
export type TransferSimulation = Pick<WriteSimulation, 'gas' | 'fee' | 'rule' | 'approval'> & {
  recipient: Recipient
  amount: bigint
}

type WriteAnswer = {
  id: string
  hash: Hex
  explorerUrl: string
  state: TransactionState
  tx: SubmittedTransaction
  operation?: Operation
  gas?: GasPayer
}
type DryRunAnswer = Omit<WriteSimulation, 'result'> & { outputs: Output[] }
type TransferAnswer = Omit<WriteAnswer, 'tx'> & { recipient: Recipient; amount: { value: string } }
type WireBalance = Omit<Balance, 'value' | 'decimals'> & {
  balance: string
  balanceBn: unknown
  decimals: number | string
}
type WireTransfer = Omit<Transfer, 'amount'> & {
  amount: Omit<Transfer['amount'], 'value'> & { value: string; valueBn: unknown; formatted: unknown }
}

export type Client = ReturnType<typeof createClient>

/**
 * Opens a client of the wallet of one user. It makes no request until a method is called.
 * Every method throws `SignedOut`, `Refused`, `InvalidInput` or `Busy`; a write also `Reverted`, `ApprovalRequired` or `Unknown`.
 */
export function createClient(options: ClientOptions) {
  const requests = openRequests(options)
  const { get, ask } = requests
  const userPath = async (rest: string, of: CallOptions) => `/v1/users/${encodeURIComponent((await me(of)).id)}${rest}`

  // The session's own user. A token can be another user's at each request, so that profile is not stored.
  let known: Promise<Me> | null = null
  options.session?.subscribe?.(() => {
    known = null
  })

  /** Reads the profile of the signed-in user, with network and permissions. It is stored until the session changes. */
  async function me(of: CallOptions = {}): Promise<Me> {
    if (known !== null) return known
    const reading = get<Me>('/v1/me', {}, of).then(({ body }) => body)
    if (options.session?.subscribe === undefined) return reading
    known = reading
    reading.catch(() => {
      if (known === reading) known = null
    })
    return reading
  }

  /** Reads a user by id: the signed-in one, or with `users:directory` one who consented to be found. */
  const user = async (userId: string, of: CallOptions = {}): Promise<User> =>
    (await get<User>(`/v1/users/${encodeURIComponent(userId)}`, {}, of)).body

  /** Lists the users of the application who have exactly this name and consented to be found (`users:directory`). */
  const users = (filter: { username?: string; provider?: string; limit?: number } = {}): List<User> =>
    openList(async (cursor, of) => get<User[]>('/v1/users', { ...filter, cursor }, of))

  /** Reads the balance of native currency, or of an ERC-20 or ERC-721 contract. */
  async function balance(token?: string, of: CallOptions = {}): Promise<Balance & { blockNumber: number | null }> {
    const path = await userPath(token === undefined ? '/balance' : `/balance/${encodeURIComponent(token)}`, of)
    const { body, headers } = await get<Record<string, WireBalance>>(path, {}, of)
    return { ...balanceOf(Object.values(body)[0]!), blockNumber: numberOf(headers, 'x-block-number') }
  }

  /** Lists native currency and all tokens with a balance, each page at one block. `unanswered` counts tokens of the page that did not respond. */
  const balances = (
    filter: { limit?: number; includeSpam?: boolean } = {},
  ): List<Balance, { blockNumber: number | null; unanswered: number | null; indexedTo: number | null }> =>
    openList(
      async (cursor, of) => {
        const { body, headers } = await get<Record<string, WireBalance>>(
          await userPath('/balances', of),
          { ...filter, cursor },
          of,
        )
        return { headers, body: Object.values(body).map(balanceOf) }
      },
      (headers) => ({
        blockNumber: numberOf(headers, 'x-block-number'),
        unanswered: numberOf(headers, 'x-unanswered-tokens'),
        indexedTo: numberOf(headers, 'x-indexed-to-block'),
      }),
    )

  /** Lists transfers of the user, newest first. */
  const history = ({ type, ...filter }: HistoryFilter = {}): List<Transfer, HistoryRange> =>
    openList(
      async (cursor, of) => {
        const query = { ...filter, type: type?.join(','), cursor }
        const { body, headers } = await get<WireTransfer[]>(await userPath('/history', of), query, of)
        return { headers, body: body.map(transferOf) }
      },
      (headers) => ({
        indexedFrom: numberOf(headers, 'x-indexed-from-block'),
        indexedTo: numberOf(headers, 'x-indexed-to-block'),
        finalizedTo: numberOf(headers, 'x-finalized-to-block'),
        nativeFrom: numberOf(headers, 'x-native-from-block'),
        nativeInternalFrom: numberOf(headers, 'x-native-internal-from-block'),
      }),
    )

  /** Calls a view function. @returns its result, as `ResultOf` describes */
  async function read<const A extends AbiSource, const N extends string = string>(
    call: ReadCall<A, N>,
    of: CallOptions = {},
  ): Promise<ResultOf<FunctionOf<A, N>>> {
    const { sender, blockTag } = call
    const { body } = await ask<{ outputs: Output[] }>(
      '/v1/contracts/method/read',
      { ...wireCallOf(call), sender, blockTag },
      of,
    )
    return resultOf(body.outputs) as never
  }

  /** Calls up to 100 view functions at one block. Each has its own result or error. */
  async function readMany(
    calls: readonly (Omit<BatchCall, 'value'> & { sender?: boolean })[],
    { blockTag, ...of }: CallOptions & { blockTag?: BlockTag } = {},
  ): Promise<{ blockNumber: number; results: ReadOutcome[] }> {
    const body = { calls: calls.map((call) => ({ ...wireCallOf(call), sender: call.sender })), blockTag }
    const answer = await ask<{ blockNumber: number; results: ({ outputs: Output[] } | Problem)[] }>(
      '/v1/contracts/method/read/batch',
      body,
      of,
    )
    const results = answer.body.results.map((one): ReadOutcome =>
      'outputs' in one ? { result: resultOf(one.outputs) } : { error: errorOf(one, null) },
    )
    return { blockNumber: answer.body.blockNumber, results }
  }

  const writeOf = ({ id, ...answer }: WriteAnswer, key: string): Write => {
    const { hash, explorerUrl, state, tx, operation, gas } = answer
    return {
      ...handleOf(requests, id, key),
      hash,
      explorerUrl,
      state,
      tx,
      ...(operation && { operation }),
      ...(gas && { gas }),
    }
  }

  /** Calls a function of a contract from the user's account. Resolves when the transaction is stored, not when it is mined. */
  const write = async <const A extends AbiSource, const N extends string = string>(
    call: WriteCall<A, N>,
    of: WriteOptions = {},
  ): Promise<Write> => requests.write('/v1/contracts/method/write', writeBody(call), of, writeOf)

  /** Runs 2 to 20 calls in order, all or none. Needs a network whose gas a sponsor pays (`atomic_unsupported`). */
  const batch = async (calls: readonly BatchCall[], of: WriteOptions = {}): Promise<Write> =>
    requests.write('/v1/contracts/method/write/batch', { calls: calls.map(writeBody) }, of, writeOf)

  /** Sends calldata that the application encoded, or native currency to an address. */
  const send = (request: SendRequest, of: WriteOptions = {}): Promise<Write> =>
    requests.write('/v1/transactions', request, of, writeOf)

  /**
   * Sends native currency or a token to an address or a user, who needs not have signed in before.
   * An amount as a bigint also needs `wallet:read`, for the decimals of the token.
   */
  const transfer = async (request: TransferRequest, of: WriteOptions = {}): Promise<SentTransfer> =>
    requests.write(
      '/v1/tokens/transfers',
      await transferBody(request, of),
      of,
      (answer: TransferAnswer, key): SentTransfer => {
        const { id, hash, explorerUrl, state, recipient, amount } = answer
        return { ...handleOf(requests, id, key), hash, explorerUrl, state, recipient, amount: BigInt(amount.value) }
      },
    )

  async function transferBody({ to, token, amount, tokenId }: TransferRequest, of: CallOptions) {
    const tokenType =
      token === undefined ? 'NATIVE' : tokenId === undefined ? 'ERC20' : amount === undefined ? 'ERC721' : 'ERC1155'
    const isScaled = typeof amount === 'bigint' && tokenType !== 'ERC1155'
    const recipient =
      typeof to !== 'string'
        ? { toUserProviderType: to.provider, toUserUsername: to.username }
        : /^0x/i.test(to)
          ? { toAddress: to }
          : { toUserId: to }
    return {
      ...{ tokenType, tokenAddress: token, tokenId, ...recipient },
      amount: isScaled ? inUnits(amount, (await balance(token, of)).decimals) : amount,
    }
  }

  /** Simulates writes, transfers and signatures: nothing is signed or stored. */
  const simulate = {
    write: async <const A extends AbiSource, const N extends string = string>(
      call: WriteCall<A, N>,
      of: CallOptions = {},
    ): Promise<WriteSimulation<ResultOf<FunctionOf<A, N>>>> =>
      simulationOf(await rehearse('/v1/contracts/method/write', writeBody(call), of)) as never,
    batch: async (calls: readonly BatchCall[], of: CallOptions = {}): Promise<WriteSimulation> =>
      simulationOf(await rehearse('/v1/contracts/method/write/batch', { calls: calls.map(writeBody) }, of)),
    send: async (request: SendRequest, of: CallOptions = {}): Promise<WriteSimulation> =>
      simulationOf(await rehearse('/v1/transactions', request, of)),
    transfer: async (request: TransferRequest, of: CallOptions = {}): Promise<TransferSimulation> => {
      const { gas, fee, rule, approval, recipient, amount } = await rehearse<TransferSimulation & TransferAnswer>(
        '/v1/tokens/transfers',
        await transferBody(request, of),
        of,
      )
      return { gas, fee, rule, approval, recipient, amount: BigInt((amount as TransferAnswer['amount']).value) }
    },
    signMessage: (message: MessageInput, of: CallOptions = {}): Promise<SignSimulation> =>
      rehearse('/v1/signatures/message', messageBody(message), of),
    signTypedData: (typedData: TypedData, of: CallOptions = {}): Promise<SignSimulation> =>
      rehearse('/v1/signatures/typed-data', { typedData: withDomain(typedData) }, of),
  }

  const rehearse = async <T>(path: string, body: object, of: CallOptions): Promise<T> =>
    (await ask<T>(path, { ...body, dryRun: true }, of)).body

  /** Makes the handle of a transaction of the user at this application. @param id  id, or any of its hashes */
  const transaction = (id: string): TransactionHandle => handleOf(requests, id)

  /** Lists the transactions of the user at this application, newest first. */
  const transactions = (filter: { limit?: number; state?: TransactionState } = {}): List<Transaction> =>
    openList(async (cursor, of) => get<Transaction[]>('/v1/transactions', { ...filter, cursor }, of))

  /** Signs a text, or bytes, as `personal_sign` does (EIP-191). */
  const signMessage = (message: MessageInput, of: WriteOptions = {}): Promise<Signed> =>
    requests.write('/v1/signatures/message', messageBody(message), of, (signed: Signed) => signed)

  /** Signs EIP-712 typed data, as `eth_signTypedData_v4` does. */
  const signTypedData = (typedData: TypedData, of: WriteOptions = {}): Promise<Signed> =>
    requests.write('/v1/signatures/typed-data', { typedData: withDomain(typedData) }, of, (signed: Signed) => signed)

  /** Checks a signature of any account, also of a contract. */
  const verify = async (request: VerifyRequest, of: CallOptions = {}): Promise<Verification> =>
    (
      await ask<Verification>(
        '/v1/signatures/verify',
        'typedData' in request ? { ...request, typedData: withDomain(request.typedData) } : request,
        of,
      )
    ).body

  /** Lists the messages that the user signed for this application, newest first. */
  const signatures = (filter: { limit?: number } = {}): List<OwnSignature> =>
    openList(async (cursor, of) => get<OwnSignature[]>('/v1/signatures', { ...filter, cursor }, of))

  /** Reads one signature of the user for this application. */
  const signature = async (id: string, of: CallOptions = {}): Promise<OwnSignature> =>
    (await get<OwnSignature>(`/v1/signatures/${encodeURIComponent(id)}`, {}, of)).body

  /** Lists all signatures of the account from the signer's log, of all applications, each with its proof. */
  const signingLog = (): List<LogEntry> =>
    openList(async (cursor, of) => get<LogEntry[]>('/v1/me/signatures', { cursor }, of))

  /** Reads the state of a request for the user's approval. */
  const approval = async (id: string, of: CallOptions = {}): Promise<Approval> =>
    (await get<Approval>(`/v1/approvals/${encodeURIComponent(id)}`, {}, of)).body

  return {
    ...{ me, user, users, balance, balances, history },
    ...{ read, readMany, write, batch, send, transfer, simulate, transaction, transactions },
    ...{ signMessage, signTypedData, verify, signatures, signature, signingLog, approval },
  }
}

/** A result of `readMany`. */
export type ReadOutcome = { result: unknown; error?: undefined } | { error: ClientError; result?: undefined }

const writeBody = (call: BatchCall & { gas?: bigint }) => ({ ...wireCallOf(call), value: call.value, gas: call.gas })

const messageBody = (message: MessageInput) => (typeof message === 'string' ? { message } : { hex: message.hex })

/** The service takes exactly these fields, and no absent domain. */
const withDomain = ({ domain = {}, types, primaryType, message }: TypedData): TypedData => ({
  domain,
  types,
  primaryType,
  message,
})

function simulationOf({ outputs, gas, fee, rule, approval, limits, tx, operation }: DryRunAnswer): WriteSimulation {
  return {
    result: resultOf(outputs),
    gas,
    fee,
    rule,
    approval,
    tx,
    ...(limits && { limits }),
    ...(operation && { operation }),
  }
}

function balanceOf(wire: WireBalance): Balance {
  const { balance, balanceBn: _, decimals, ...rest } = wire
  return { ...rest, value: BigInt(balance), decimals: Number(decimals) }
}

function transferOf({ amount, ...rest }: WireTransfer): Transfer {
  const { value, valueBn: _, formatted: __, ...asset } = amount
  return { ...rest, amount: { ...asset, value: BigInt(value) } }
}

function numberOf(headers: Headers, name: string): number | null {
  const text = headers.get(name)
  return text === null ? null : Number(text)
}

/** Writes an amount of the smallest unit as decimal text in whole units. */
function inUnits(amount: bigint, decimals: number): string {
  if (amount < 0n) throw invalid('/amount', 'The amount is negative.')
  if (decimals === 0) return String(amount)
  const digits = String(amount).padStart(decimals + 1, '0')
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '')
}
