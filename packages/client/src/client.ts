import { type Output, invalid, resultOf, wireCallOf } from './abi.ts'
import type {
  BatchCall,
  BlockTag,
  BalancesFacts,
  Client,
  EncodedCall,
  HistoryFilter,
  HistoryRange,
  MessageInput,
  NftsRange,
  ReadOutcome,
  SendRequest,
  SentTransfer,
  TransferRequest,
  TransferSimulation,
  TypedData,
  VerifyRequest,
  Write,
  WriteSimulation,
} from './calls.ts'
import { type EventPage, type EventsOptions, readFeed } from './events.ts'
import { openList, type List } from './list.ts'
import { type CallOptions, type ClientOptions, errorOf, openRequests, type WriteOptions } from './request.ts'
import { handleOf, type TransactionHandle } from './transaction.ts'
import type {
  Approval,
  Balance,
  GasPayer,
  Hex,
  LogEntry,
  Me,
  Nft,
  Operation,
  OwnSignature,
  Problem,
  Recipient,
  Signed,
  SignSimulation,
  SubmittedTransaction,
  Transaction,
  TransactionState,
  Transfer,
  User,
  Verification,
} from './wire.ts'

type WriteAnswer = {
  id: string
  status: string
  hash: Hex
  explorerUrl: string
  state: TransactionState
  reference: string | null
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
type WireNft = Omit<Nft, 'value'> & { balance: string; balanceBn: unknown }
type WireTransfer = Omit<Transfer, 'amount'> & {
  amount: Omit<Transfer['amount'], 'value'> & { value: string; valueBn: unknown; formatted: unknown }
}

/**
 * Creates a client of one user's wallet. Makes no request until a method is called.
 * @param options  the service, and either the user's session or access token
 */
export function createClient(options: ClientOptions): Client {
  const requests = openRequests(options)
  const { get, ask } = requests
  const userPath = async (rest: string, of: CallOptions) => `/v1/users/${encodeURIComponent((await me(of)).id)}${rest}`

  // Store only the profile of the session's user. A token can belong to another user at each request.
  let known: Promise<Me> | null = null
  options.session?.subscribe?.(() => {
    known = null
  })

  async function me(of: CallOptions = {}): Promise<Me> {
    if (known !== null) return known
    const isStored = options.session?.subscribe !== undefined
    // A stored profile is shared by callers, so no single caller can abort its request.
    const reading = get<Me>('/v1/me', {}, isStored ? {} : of).then(({ body }) => body)
    if (!isStored) return reading
    known = reading
    reading.catch(() => {
      if (known === reading) known = null
    })
    return reading
  }

  const user = async (userId: string, of: CallOptions = {}): Promise<User> =>
    (await get<User>(`/v1/users/${encodeURIComponent(userId)}`, {}, of)).body

  const users = (filter: { username?: string; provider?: string; limit?: number } = {}): List<User> =>
    openList(async (cursor, of) => get<User[]>('/v1/users', { ...filter, cursor }, of))

  async function balance(token?: string, of: CallOptions = {}): Promise<Balance & { blockNumber: number | null }> {
    const path = await userPath(token === undefined ? '/balance' : `/balance/${encodeURIComponent(token)}`, of)
    const { body, headers } = await get<Record<string, WireBalance>>(path, {}, of)
    return { ...balanceOf(Object.values(body)[0]!), blockNumber: numberOf(headers, 'x-block-number') }
  }

  const balances = (filter: { limit?: number; includeSpam?: boolean } = {}): List<Balance, BalancesFacts> =>
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

  function nfts(filter: { limit?: number; token?: string; includeSpam?: boolean } = {}): List<Nft, NftsRange> {
    const list = openList<Nft, NftsRange>(
      async (cursor, of) => {
        const { body, headers } = await get<WireNft[]>(await userPath('/nfts', of), { ...filter, cursor }, of)
        return { headers, body: body.map(nftOf) }
      },
      (headers) => ({
        blockNumber: numberOf(headers, 'x-block-number'),
        indexedFrom: numberOf(headers, 'x-indexed-from-block'),
        indexedTo: numberOf(headers, 'x-indexed-to-block'),
      }),
    )
    return {
      ...list,
      // An NFT that arrived several times can be on several pages.
      async *[Symbol.asyncIterator]() {
        const seen = new Set<string>()
        for await (const nft of list) {
          const key = `${nft.tokenAddress} ${nft.tokenId}`
          if (!seen.has(key)) yield nft
          seen.add(key)
        }
      },
    }
  }

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

  const read: Client['read'] = async (call, of = {}) => {
    const { sender, blockTag } = call
    const { body } = await ask<{ outputs: Output[] }>(
      '/v1/contracts/method/read',
      { ...wireCallOf(call), sender, blockTag },
      of,
    )
    return resultOf(body.outputs) as never
  }

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

  function writeOf(wire: WriteAnswer, key: string): Write {
    const { id, status: _, ...answer } = wire
    return { ...answer, ...handleOf(requests, id, key) }
  }

  const write: Client['write'] = async (call, of = {}) =>
    requests.write('/v1/contracts/method/write', writeBody(call), of, writeOf)

  const batch = async (calls: readonly (BatchCall | EncodedCall)[], of: WriteOptions = {}): Promise<Write> =>
    requests.write('/v1/contracts/method/write/batch', { calls: calls.map(batchBody) }, of, writeOf)

  const send = (request: SendRequest, of: WriteOptions = {}): Promise<Write> =>
    requests.write('/v1/transactions', request, of, writeOf)

  const transfer = async (request: TransferRequest, of: WriteOptions = {}): Promise<SentTransfer> =>
    requests.write(
      '/v1/tokens/transfers',
      await transferBody(request, of),
      of,
      (wire: TransferAnswer, key): SentTransfer => {
        const { id, status: _, amount, ...answer } = wire
        return { ...answer, ...handleOf(requests, id, key), amount: BigInt(amount.value) }
      },
    )

  async function transferBody(request: TransferRequest, of: CallOptions) {
    const { to, token, amount, tokenId } = request
    // Reject undefined fields: without a `token` that is missing by mistake, native currency would be sent.
    for (const name of ['token', 'tokenId', 'amount'] as const)
      if (name in request && request[name] === undefined) throw invalid(`/${name}`, 'The value is undefined.')
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

  const simulate: Client['simulate'] = {
    write: async (call, of = {}) =>
      simulationOf(await rehearse('/v1/contracts/method/write', writeBody(call), of)) as never,
    batch: async (calls: readonly (BatchCall | EncodedCall)[], of: CallOptions = {}): Promise<WriteSimulation> =>
      simulationOf(await rehearse('/v1/contracts/method/write/batch', { calls: calls.map(batchBody) }, of)),
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

  const transaction = (id: string): TransactionHandle => handleOf(requests, id)

  const transactions = (filter: { limit?: number; state?: TransactionState } = {}): List<Transaction> =>
    openList(async (cursor, of) => get<Transaction[]>('/v1/transactions', { ...filter, cursor }, of))

  const signMessage = (message: MessageInput, of: WriteOptions = {}): Promise<Signed> =>
    requests.write('/v1/signatures/message', messageBody(message), of, (signed: Signed) => signed)

  const signTypedData = (typedData: TypedData, of: WriteOptions = {}): Promise<Signed> =>
    requests.write('/v1/signatures/typed-data', { typedData: withDomain(typedData) }, of, (signed: Signed) => signed)

  const verify = async (request: VerifyRequest, of: CallOptions = {}): Promise<Verification> =>
    (
      await ask<Verification>(
        '/v1/signatures/verify',
        'typedData' in request ? { ...request, typedData: withDomain(request.typedData) } : request,
        of,
      )
    ).body

  const signatures = (filter: { limit?: number } = {}): List<OwnSignature> =>
    openList(async (cursor, of) => get<OwnSignature[]>('/v1/signatures', { ...filter, cursor }, of))

  const signature = async (id: string, of: CallOptions = {}): Promise<OwnSignature> =>
    (await get<OwnSignature>(`/v1/signatures/${encodeURIComponent(id)}`, {}, of)).body

  const signingLog = (): List<LogEntry> =>
    openList(async (cursor, of) => get<LogEntry[]>('/v1/me/signatures', { cursor }, of))

  const approval = async (id: string, of: CallOptions = {}): Promise<Approval> =>
    (await get<Approval>(`/v1/approvals/${encodeURIComponent(id)}`, {}, of)).body

  const events = (of: EventsOptions = {}): AsyncIterable<EventPage> => readFeed(requests, of)

  return {
    ...{ me, user, users, balance, balances, nfts, history },
    ...{ read, readMany, write, batch, send, transfer, simulate, transaction, transactions },
    ...{ signMessage, signTypedData, verify, signatures, signature, signingLog, approval, events },
  }
}

const writeBody = (call: BatchCall & { gas?: bigint }) => ({ ...wireCallOf(call), value: call.value, gas: call.gas })

const batchBody = (call: BatchCall | EncodedCall) => ('abi' in call ? writeBody(call) : call)

const messageBody = (message: MessageInput) => (typeof message === 'string' ? { message } : { hex: message.hex })

/** Returns exactly the fields that the service accepts, always with a domain. */
const withDomain = ({ domain = {}, types, primaryType, message }: TypedData): TypedData => ({
  domain,
  types,
  primaryType,
  message,
})

function simulationOf({ outputs, gas, fee, rule, approval, limits, tx, operation }: DryRunAnswer): WriteSimulation {
  return {
    ...{ result: resultOf(outputs), gas, fee, rule, approval, tx },
    ...(limits && { limits }),
    ...(operation && { operation }),
  }
}

function balanceOf(wire: WireBalance): Balance {
  const { balance, balanceBn: _, decimals, ...rest } = wire
  return { ...rest, value: BigInt(balance), decimals: Number(decimals) }
}

function nftOf({ balance, balanceBn: _bn, ...rest }: WireNft): Nft {
  return { ...rest, value: BigInt(balance) }
}

function transferOf({ amount, ...rest }: WireTransfer): Transfer {
  const { value, valueBn: _, formatted: __, ...asset } = amount
  return { ...rest, amount: { ...asset, value: BigInt(value) } }
}

function numberOf(headers: Headers, name: string): number | null {
  const text = headers.get(name)
  return text === null ? null : Number(text)
}

/** Formats an amount in the smallest unit as decimal text in whole units. */
function inUnits(amount: bigint, decimals: number): string {
  if (amount < 0n) throw invalid('/amount', 'The amount is negative.')
  if (decimals === 0) return String(amount)
  const digits = String(amount).padStart(decimals + 1, '0')
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '')
}
