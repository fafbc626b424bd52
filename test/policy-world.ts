import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Transaction } from 'ethers'
import { decodeFunctionData, parseAbi } from 'viem'
import { createAccount } from '../src/signer/verbs/create.ts'
import { openGroup, type RunGrouped } from '../src/signer/group.ts'
import { unwrapDeks } from '../src/signer/keys/deks.ts'
import { makeKekFile, openKekFile } from '../src/signer/kek/file.ts'
import { openKeys } from '../src/signer/keys/keys.ts'
import { checkWitness } from '../src/signer/ledger/ledger.ts'
import { openUnwrapped } from '../src/signer/ledger/signing-log.ts'
import { openLog, type Logger } from '../src/log.ts'
import type { Approval } from '../src/signer/rules/approval.ts'
import { openMeterSeal } from '../src/signer/rules/meter-seal.ts'
import { openMeters } from '../src/signer/rules/meters.ts'
import { readPolicyVersion } from '../src/signer/policy/accept.ts'
import type { Inside } from '../src/signer/verbs/pipeline.ts'
import { sign } from '../src/signer/verbs/sign.ts'
import { checkMessage, signMessage } from '../src/signer/verbs/sign-message.ts'
import { signOperation } from '../src/signer/verbs/sign-operation.ts'
import { signOuter } from '../src/signer/verbs/sign-outer.ts'
import { DATABASE_FILE, openStore } from '../src/signer/store.ts'
import { openUnattendedFees } from '../src/signer/rules/unattended.ts'
import { openWitness, readWitness } from '../src/signer/ledger/witness.ts'
import type { ApprovalClaims } from '../src/signer-wire/approval.ts'
import type {
  Hex,
  Signed,
  CheckedMessage,
  SignedMessage,
  SignedOperationText,
  SignMessageRequest,
  SignOperationRequest,
  SignOuterRequest,
  SignRequest,
} from '../src/signer-wire/wire.ts'

/** Where a signer dies: with all of a job's writes in the open transaction, or when they are on the disk and nobody was told. */
type Death = 'before-commit' | 'after-commit'

type Caller = { userId: string; clientId: string }
type Unshown<T> = T extends unknown ? Omit<T, 'accessToken'> : never

/** A signer within this process, whose clock and death a test decides. The store, the ledger, the group and the meters are the real ones. */
export type GovernedSigner = {
  sign: (request: SignRequest, by: Caller | null) => Promise<Signed>
  signOperation: (request: Unshown<SignOperationRequest>, by: Caller) => Promise<SignedOperationText>
  signMessage: (request: Unshown<SignMessageRequest>, by: Caller) => Promise<SignedMessage>
  checkMessage: (request: Unshown<SignMessageRequest>, by: Caller) => Promise<CheckedMessage>
  /** what the user approves, as a token that this signer takes */
  approve: (userId: string, claims: ApprovalClaims) => string
  signOuter: (request: SignOuterRequest) => Promise<Signed>
  account: (userId: string) => Promise<Hex>
  /** it dies at the job after so many more; what was asked of it stays without an answer, and it is opened again */
  dieAfter: (jobs: number, how: Death) => void
  deaths: () => number
  /** `meanwhile`: what someone does to its store while it does not run */
  restart: (meanwhile?: (db: DatabaseSync) => void) => void
  /** an older copy is taken for the store, with nothing that any chain has counted */
  acceptRestore: () => void
  folder: string
  close: () => void
}

class Killed extends Error {}

/** @param startsAt  what the clock says when the signer is opened */
export async function openGoverned({
  policy,
  now,
  topUp = { perUser: 0n, perSponsor: 0n },
  gas = { perUser: 0n, perSponsor: 0n },
  startsAt = now,
  log = openLog('signer', 'silent'),
}: {
  /** null: only the built-in rules */
  policy: string | null
  now: () => number
  /** wei within a day */
  topUp?: { perUser: bigint; perSponsor: bigint }
  gas?: { perUser: bigint; perSponsor: bigint }
  startsAt?: () => number
  log?: Logger
}): Promise<GovernedSigner> {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-policy-'))
  const kekFile = join(folder, 'kek')
  makeKekFile(kekFile)
  const document = policy === null ? null : readPolicyVersion(policy)
  let callers = new Map<string, Caller>()
  const approvals = new Map<string, Approval>()
  let [left, how, deaths] = [Infinity, 'before-commit' as Death, 0]
  let waiting = new Set<(error: Error) => void>()
  const first = openStore(join(folder, 'store'))
  // As the signer keeps it: `verify` compares it with the ledger.
  if (policy !== null) first.db.prepare('INSERT INTO policy (only_row, document) VALUES (1, ?)').run(policy)
  let unwrapped = await unwrapDeks(first.db, openKekFile(kekFile))
  first.close()
  let { inside, close } = open()

  function open(): { inside: Inside; close: () => void } {
    const store = openStore(join(folder, 'store'))
    store.db.exec('PRAGMA synchronous = OFF')
    const { deks, ledger, heads, identity } = openUnwrapped(store.db, unwrapped, now)
    // The first of them is in the store from here on.
    unwrapped = { ...unwrapped, spare: null }
    checkWitness(store.db, ledger.head(), readWitness(store.witnessPath))
    const witness = openWitness(store.witnessPath, ledger.head())
    const end = () => {
      witness.close()
      store.close()
    }
    const seal = openMeterSeal({ db: store.db, macs: deks.macs, ledger, log })
    const meters = openMeters(store.db, startsAt, seal)
    const grouped = openGroup({
      db: store.db,
      committing() {
        meters.write()
        heads.seal()
      },
      committed() {
        if (left <= 0 && how === 'after-commit') throw new Killed()
        witness.write(ledger.head())
      },
      fatal() {
        deaths += 1
        left = Infinity
        const asking = [...waiting]
        waiting = new Set()
        end()
        ;({ inside, close } = open())
        for (const reject of asking) reject(new Killed())
      },
    })
    const group: RunGrouped = (order, job) =>
      new Promise((resolve, reject) => {
        waiting.add(reject)
        const ended = grouped(order, () => {
          const value = job()
          left -= 1
          // As an error of the database: it ends the whole program.
          if (left <= 0 && how === 'before-commit') throw Object.assign(new Killed(), { code: 'ERR_SQLITE_ERROR' })
          return value
        })
        ended.then(resolve, reject).finally(() => waiting.delete(reject))
      })
    const opened: Inside = {
      keys: openKeys({ db: store.db, deks, now }),
      tokens: {
        check: async (token) => ({
          ...callers.get(token)!,
          ...{
            scopes: ['contracts:write', 'messages:sign'],
            tokenId: token,
            tokenHash: token,
            jti: null,
            expiresAt: Infinity,
            domains: ['shop.example'],
          },
          chainId: Number(token.split(' ')[0]),
          marks: { grant: '', application: '', user: '' },
        }),
      },
      limits: {
        chains: null,
        maxFeeWei: 10n ** 18n,
        maxFillFeeWei: 10n ** 18n,
        maxFills: 16,
        maxRaise: 8n,
        maxUnattendedFeeWei: 10n ** 20n,
        topUpPerUserWei: topUp.perUser,
        topUpPerSponsorWei: topUp.perSponsor,
        gasPerUserWei: gas.perUser,
        gasPerSponsorWei: gas.perSponsor,
        signsCalibur: true,
        maxDeadlineSeconds: 3_600,
      },
      approvals: { read: async (token) => (token === null ? null : (approvals.get(token) ?? null)) },
      withdrawals: { find: () => null },
      unattended: openUnattendedFees({ maxWei: 10n ** 20n, earlier: [], now }),
      freezes: { assertMoves() {}, isApplicationFrozen: () => false },
      policy: { current: () => document },
      ...{ meters, ledger, group, identity, now, assertUnattended: () => {} },
    }
    return { inside: opened, close: end }
  }

  function shown({ chainId }: { chainId: number }, by: Caller): { accessToken: string } {
    const accessToken = `${chainId} ${by.userId} ${by.clientId}`
    callers = callers.set(accessToken, by)
    return { accessToken }
  }

  return {
    folder: join(folder, 'store'),
    sign: (request, by) => sign(inside, by === null ? request : { ...request, ...shown(request, by) }),
    signOperation: (request, by) => signOperation(inside, { ...request, ...shown(request, by) }),
    signMessage: (request, by) => signMessage(inside, { ...request, ...shown(request, by) }),
    checkMessage: (request, by) => checkMessage(inside, { ...request, ...shown(request, by) }),
    approve(userId, claims) {
      const token = `approval ${approvals.size}`
      approvals.set(token, { userId, claims, expiresAt: now() / 1_000 + 60, tokenHash: token, jti: token })
      return token
    },
    signOuter: (request) => signOuter(inside, request),
    account: async (userId) => (await createAccount(inside, { userId })).address,
    dieAfter: (jobs, death) => void ([left, how] = [jobs, death]),
    deaths: () => deaths,
    restart(meanwhile) {
      close()
      close = () => {}
      if (meanwhile !== undefined) {
        const db = new DatabaseSync(join(folder, 'store', DATABASE_FILE))
        meanwhile(db)
        db.close()
      }
      ;({ inside, close } = open())
    },
    acceptRestore() {
      close()
      const { db, witnessPath, close: end } = openStore(join(folder, 'store'))
      const { ledger, heads } = openUnwrapped(db, unwrapped, now)
      db.exec('BEGIN')
      const restored = { witness: null, floors: [] }
      const who = { userId: '', address: Buffer.alloc(0), rule: 'accept-restore' }
      ledger.append({ at: now(), kind: 'restore', ...who, restored })
      heads.seal()
      db.exec('COMMIT')
      openWitness(witnessPath, ledger.head()).close()
      end()
      ;({ inside, close } = open())
    },
    close() {
      close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const abi = parseAbi(['function transfer(address,uint256)', 'function approve(address,uint256)'])

/** One signature of the ledger as another library reads its bytes; `at` is the clock it was signed by. */
export type JudgedSpend = {
  at: number
  userId: string
  clientId: string
  chainId: number
  value: bigint
  token: bigint
}

/** What the ledger's bytes spend, by first attempts and permits only: nothing of meters, charges or buckets is looked at. */
export function readSpends(folder: string, token: string): JudgedSpend[] {
  const db = new DatabaseSync(join(folder, DATABASE_FILE), { readOnly: true })
  try {
    const rows = db.prepare(`SELECT at, kind, user_id, client_id, raw FROM ledger WHERE kind IN ('send', 'message') ORDER BY seq`).all() // prettier-ignore
    type Spent = { at: number; kind: string; user_id: string; client_id: string; raw: Uint8Array }
    return (rows as Spent[]).map((row) => {
      const whose = { at: row.at, userId: row.user_id, clientId: row.client_id }
      if (row.kind === 'message') return { ...whose, value: 0n, ...readPermit(Buffer.from(row.raw).toString('utf8', 66), token) } // prettier-ignore
      const tx = Transaction.from(`0x${Buffer.from(row.raw).toString('hex')}`)
      const isToken = tx.to?.toLowerCase() === token.toLowerCase() && tx.data !== '0x'
      return {
        ...whose,
        chainId: Number(tx.chainId),
        value: tx.value,
        token: isToken ? decodeFunctionData({ abi, data: tx.data as Hex }).args[1] : 0n,
      }
    })
  } finally {
    db.close()
  }
}

/** The network of a permit, and its amount if it is of the token. */
function readPermit(text: string, token: string): { chainId: number; token: bigint } {
  const { domain, message } = JSON.parse(text) as { domain: { chainId: string; verifyingContract: string }; message: { value: string } } // prettier-ignore
  const isToken = domain.verifyingContract.toLowerCase() === token.toLowerCase()
  return { chainId: Number(domain.chainId), token: isToken ? BigInt(message.value) : 0n }
}

/**
 * The most that lies in any span of a period, of charges in the order they were made. Time never goes back: what is charged after a
 * later time was seen is of that time.
 */
export function mostInAnySpan(charges: readonly { at: number; amount: bigint }[], periodSeconds: number): bigint {
  let newest = -Infinity
  const timed = charges.map(({ at, amount }) => ({ at: (newest = Math.max(newest, at)), amount }))
  let [most, sum, first] = [0n, 0n, 0]
  for (const { at, amount } of timed) {
    sum += amount
    while (timed[first]!.at <= at - periodSeconds * 1_000) sum -= timed[first++]!.amount
    if (sum > most) most = sum
  }
  return most
}
