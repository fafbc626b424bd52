import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import type { App } from '../src/app.ts'
import { approvals } from '../src/approvals/routes.ts'
import { saveApplication } from '../src/applications/registry.ts'
import { openChain } from '../src/chain/open.ts'
import type { Chain } from '../src/chain/network.ts'
import type { Rpc } from '../src/chain/rpc/rpc.ts'
import { readConfig, type Config } from '../src/config.ts'
import { contractWrites } from '../src/contracts/write-route.ts'
import { writeContract } from '../src/contracts/write.ts'
import { startFollower } from '../src/follower/follow.ts'
import { assertUser, verifyAccessToken, type Caller, type Reader } from '../src/http/bearer.ts'
import { authenticated } from '../src/http/caller.ts'
import { openGate } from '../src/http/gate.ts'
import { openListener } from '../src/http/listener.ts'
import type { Hex } from '../src/ids.ts'
import { noSealKeys } from './seal-keys.ts'
import { makePlace, startSigner, type Place, type Running } from './kit/signer.ts'
import { openTelemetry } from '../src/telemetry.ts'
import { followTransactions } from '../src/transactions/settle/follow.ts'
import { isAnswered } from '../src/transactions/key.ts'
import { startKeeper, type Keeper } from '../src/transactions/recovery/keeper.ts'
import { isSigned } from '../src/signatures/sign.ts'
import { signatures } from '../src/signatures/routes.ts'
import { transactions } from '../src/transactions/routes.ts'
import { toHex } from '../src/hex.ts'
import { restoreAccount } from '../src/users/pregenerate.ts'
import { testDatabase } from './kit/database.ts'
import { startAnvil, type Anvil } from './kit/chain.ts'
import { until } from './kit/until.ts'
import { openState } from '../src/state.ts'
import { systemClock } from '../src/clock.ts'
import { runningClock, type TestClock } from './kit/clock.ts'

/** What a test makes of a JSON-RPC call; `next` is the real node. */
export type Fault = (method: string, params: unknown[], next: () => Promise<unknown>) => Promise<unknown>

/** One replica: an App with its own connection to the node, which may misbehave. */
export type Replica = {
  app: App
  chain: Chain
  /** null: the node behaves */
  misbehave(fault: Fault | null): void
  /** `<method> <first parameter>` of every call to the node, in order */
  calls: { method: string; params: unknown[] }[]
  server: FastifyInstance
  keeper(): Keeper
}

export type Writer = Caller & { name: string }

export type Writing = {
  first: Replica
  /** of all replicas; nodes and signer have the system's */
  clock: TestClock
  replica(settings?: Record<string, string>): Promise<Replica>
  db: App['db']
  signer: Running
  place: Place
  nodeUrl: string
  probe: Hex
  writer(name: string): Promise<Writer>
  rpc<T = unknown>(method: string, ...params: unknown[]): Promise<T>
  /** mines a block; resolves when the follower has stored it */
  mine(): Promise<void>
  followed(): Promise<void>
  /** writes a probe call on a replica */
  add(replica: Replica, writer: Writer, amount?: number, idempotencyKey?: string): ReturnType<typeof writeContract>
  /** how often the probe has counted for an account, by the chain itself */
  countOf(writer: Writer): Promise<bigint>
  close(): Promise<void>
}

const BLOCK_GAS = '0x1c9c380'

/** Real database, real signer, a real chain that mines when told to, a real follower; no HTTP but through inject. Settings that begin with SIGNER_ are the signer's. */
export async function writing(all: Record<string, string> = {}): Promise<Writing> {
  const isSigners = ([name]: [string, string]) => name.startsWith('SIGNER_')
  const ofSigner = Object.fromEntries(Object.entries(all).filter(isSigners))
  const settings = Object.fromEntries(Object.entries(all).filter((one) => !isSigners(one)))
  const place = await makePlace()
  const closers: (() => unknown)[] = [() => place.clear()]
  try {
    const [database, node] = await Promise.all([testDatabase(), startAnvil(['--slots-in-an-epoch', '1'])])
    closers.unshift(database.close, node.stop)
    const signer = await startSigner(place, { more: { LOG_LEVEL: 'silent', ...ofSigner } })
    closers.unshift(() => signer.end('SIGKILL'))
    return await assemble({ db: database.db, place, node, signer, settings, closers })
  } catch (error) {
    // What was started must not outlive a world that never came to be.
    for (const close of closers) await close()
    throw error
  }
}

type Parts = {
  db: App['db']
  place: Place
  node: Anvil
  signer: Running
  settings: Record<string, string>
  /** run in this order at the end; what is opened later goes in front */
  closers: (() => unknown)[]
}

async function assemble({ db, place, node, signer, settings, closers }: Parts): Promise<Writing> {
  const clock = runningClock()
  const jwks = JSON.parse(readFileSync(place.env.SIGNER_JWKS_FILE!, 'utf8'))

  async function replica(more: Record<string, string> = {}): Promise<Replica> {
    const config: Config = readConfig(
      { NODE_ENV: 'test', RATE_LIMITS: 'off', FOLLOW_INTERVAL_MS: '20', ...settings, ...more },
      'server',
    )
    const telemetry = openTelemetry('test', process.env.TEST_LOG ?? 'silent')
    const explorer = {
      tx: (hash: Hex) => `http://explorer/tx/${hash}`,
      address: (address: Hex) => `http://explorer/address/${address}`,
      block: (number: number) => `http://explorer/block/${number}`,
    }
    const { chain } = await openChain({
      ...{
        rpcUrls: [node.url],
        chainId: 31_337,
        name: 'devnet',
        symbol: 'ETH',
        coin: 'Ether',
        nativeDecimals: new Map(),
        explorer,
      },
      ...{
        finality: 'finalized',
        feeCapWei: 1_000n * 10n ** 9n,
        verification: 'bloom',
        gas: 'self',
        faucet: null,
        clock: systemClock,
        onCall: () => {},
      },
    })
    // A node takes its time, whatever time it is here.
    chain.clock = clock
    let fault: Fault | null = null
    const calls: Replica['calls'] = []
    const real = chain.rpc
    const perform = (method: string, params: unknown[], next: () => Promise<unknown>) => {
      calls.push({ method, params })
      return fault === null ? next() : fault(method, params, next)
    }
    const rpc: Rpc = {
      ...real,
      call: ((method: string, params: unknown[], options?: { timeoutMs?: number }) =>
        perform(method, params, () => real.call(method, params, options))) as Rpc['call'],
    }
    chain.rpc = rpc
    const app: App = {
      config,
      origin: 'http://localhost:4000',
      authOrigin: 'http://localhost:4000',
      db,
      chains: new Map([[chain.chainId, chain]]),
      networks: new Map(),
      auth: null,
      signer,
      telemetry,
      tokenKeys: jwks,
      sealKeys: noSealKeys,
      state: openState(),
      clock,
    }
    const server = openListener(app)
    openGate(server, app).refuseBehindCors()
    authenticated(server, app, {
      isAnswered: (scope) =>
        scope.route.startsWith('/v1/signatures/') ? isSigned(app.db, scope) : isAnswered(app, scope),
    })
    contractWrites(server, app)
    transactions(server, app)
    signatures(server, app)
    approvals(server, app)
    await server.ready()
    const keepers: Keeper[] = []
    closers.unshift(async () => {
      await Promise.all(keepers.map((keeper) => keeper.stop()))
      await server.close()
      real.close()
    })
    return {
      app,
      chain,
      calls,
      server,
      misbehave: (next) => {
        fault = next
      },
      keeper: () => {
        const keeper = startKeeper(app, chain)
        keepers.push(keeper)
        return keeper
      },
    }
  }

  await saveApplication(
    { db, sealKeys: noSealKeys },
    {
      ...{ clientId: 'demo', name: 'Demo', chainId: 31_337, kind: 'public', redirectUris: ['http://127.0.0.1/*'] },
      ...{
        permissions: ['wallet:read', 'contracts:read', 'contracts:write', 'messages:sign'],
        allowedOrigins: [],
        secretHashes: [],
      },
      ...{ logoUri: null, isSuspended: false },
    },
  )
  const first = await replica()
  const { rpc } = node
  const probe = await deployProbe(rpc)
  const follower = startFollower(first.app, first.chain, [followTransactions])
  closers.unshift(() => follower.stop())

  const followed = async () => {
    const { hash } = await rpc<{ hash: Hex }>('eth_getBlockByNumber', 'latest', false)
    await until('the follower has stored the newest block', async () => {
      if (first.chain.head.current()?.hash !== hash) return false
      // A read of the app may have moved the head before the follower has stored anything of the block.
      const cursor = await db.selectFrom('cursors').select('block_hash').executeTakeFirst()
      return cursor !== undefined && toHex(cursor.block_hash) === hash
    })
  }
  await followed()

  return {
    first,
    clock,
    replica,
    db,
    signer,
    place,
    nodeUrl: node.url,
    probe,
    rpc,
    followed,
    mine: async () => {
      await rpc('evm_mine')
      await followed()
    },
    writer: async (name) => {
      const userId = `DEV-${name}`
      const { address } = await signer.createAccount({ userId })
      await restoreAccount(db, { userId, address })
      await rpc('anvil_setBalance', address, '0x8ac7230489e80000')
      const token = await place.token(userId, {
        client_id: 'demo',
        scope: 'openid wallet:read contracts:write messages:sign',
        domains: ['shop.example'],
        gid: 'grant',
      })
      const caller: Reader = await verifyAccessToken(first.app, token)
      assertUser(caller)
      return { ...caller, name }
    },
    add: ({ app }, writer, amount = 1, idempotencyKey) =>
      writeContract(app, writer, { address: probe, abi: 'add(uint256)', args: [String(amount)] }, { idempotencyKey }),
    countOf: async ({ address }) =>
      BigInt(
        await rpc<Hex>('eth_call', { to: probe, data: `0x${COUNT_OF}${address.slice(2).padStart(64, '0')}` }, 'latest'),
      ),
    close: async () => {
      for (const close of closers) await close()
    },
  }
}

/** Selector of `countOf(address)`. */
const COUNT_OF = 'f8977e96'

async function deployProbe(rpc: Writing['rpc']): Promise<Hex> {
  const { bytecode } = JSON.parse(readFileSync(join(import.meta.dirname, '../contracts/out/Probe.json'), 'utf8')) as {
    bytecode: Hex
  }
  const [from] = await rpc<Hex[]>('eth_accounts')
  const hash = await rpc<Hex>('eth_sendTransaction', { from, data: bytecode, gas: BLOCK_GAS })
  await rpc('evm_mine')
  const receipt = await rpc<{ contractAddress: Hex; status: Hex }>('eth_getTransactionReceipt', hash)
  if (receipt.status !== '0x1') throw new Error('the probe was not deployed')
  return receipt.contractAddress
}
