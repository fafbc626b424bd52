import { setTimeout as pause } from 'node:timers/promises'
import { keccak } from '../../src/keccak.ts'
import type { Hex } from '../../src/ids.ts'
import { fromHex, toHex } from '../../src/hex.ts'
import { compileGas, gasMutants, gasSources } from '../gas/mutants.ts'
import { fractionsOf } from '../random.ts'
import { startAnvil } from '../kit/chain.ts'
import { judgeSponsored } from './sponsor-judge.ts'
import { sponsorScenarios, sponsorStageOf, type SponsorScenarioName } from './sponsor-scenarios.ts'
import { GAS, withSponsors, type GasCode } from './sponsor-world.ts'
import type { Check } from './transactions-evidence.ts'
import { plant, type Mutant } from './transactions-mutants.ts'
import { checkOf } from './transactions-oracle.ts'
import { chaosWorld, PROJECT } from './transactions-world.ts'

/** A mistake in the program, or in the dispatcher on the chain; the named check of the judge has to find it after the scenario. */
export type SponsorMutant = { name: string; scenario: SponsorScenarioName; caughtBy: Check } & (
  | { patches: Mutant['patches'] }
  /** what of `test/gas/mutants.ts` */
  | { dispatcher: string }
)

export const sponsorMutants: SponsorMutant[] = [
  {
    name: 'uses up the id in the frame that reverts',
    scenario: 'reverts',
    caughtBy: 'doubled',
    dispatcher: 'the id is used up in a frame that the operation reverts',
  },
  {
    name: 'ignores the code of the account in the dispatcher',
    scenario: 'uncoded',
    caughtBy: 'lost',
    dispatcher: 'the code of the account is not looked at',
  },
  {
    name: 'trusts the status of the transaction',
    scenario: 'reverts',
    caughtBy: 'state',
    patches: [['transactions/settle/settle-operations.ts', "if (event.kind === 'Done') return 'MINED'", "if (event.kind !== 'Cancelled') return 'MINED'"]], // prettier-ignore
  },
  {
    name: 'repacks without checking the deadline',
    scenario: 'late',
    caughtBy: 'price',
    patches: [
      ['transactions/sponsors/tend-operations.ts', ".where('o.deadline', '>', head.timestamp + MIN_LIFE_SECONDS)", ''],
      ['transactions/sponsors/tend-operations.ts', '  await expire(app, chain)\n', ''],
      ['transactions/sponsors/pack.ts', 'operation.deadline >= soon)', 'operation.deadline >= 0 * soon)'],
      ['signer/verbs/sign-outer.ts', '  assertInTime(order, at)\n', ''],
    ],
  },
  {
    name: 'checks the budget after it is spent',
    scenario: 'budget',
    caughtBy: 'money',
    patches: [['transactions/lanes/bind-operation.ts', 'if (exhausted !== null) return exhausted\n  known.add', 'if (exhausted !== null && known.size > 1_000) return exhausted\n  known.add']], // prettier-ignore
  },
  {
    name: 'packs an operation that its user did not sign',
    scenario: 'plain',
    caughtBy: 'lost',
    patches: [
      ['transactions/sponsors/pack.ts', 'group.map(({ packed }) => packed)', 'group.map(({ packed }) => Buffer.concat([packed.subarray(0, -1), Buffer.of(packed.at(-1)! ^ 1)]))'], // prettier-ignore
      ['signer/verbs/sign-outer.ts', '|| !held.packed.equals(packed)', ''],
    ],
  },
  {
    name: 'fails an operation whose transaction was reverted whole',
    scenario: 'another-packing',
    caughtBy: 'invented',
    patches: [
      [
        'transactions/sponsors/tend-operations.ts',
        "  await reach(app, 'before-repack')\n",
        '  return fail(app, chain, row, head)\n',
      ],
    ],
  },
  {
    name: 'ignores the key of a sponsored write',
    scenario: 'killed',
    caughtBy: 'doubled',
    patches: [['transactions/pipeline.ts', ': await findKey(app, key)', ': { free: newTransactionId() }']],
  },
  {
    name: 'ignores reorganisations of operations',
    scenario: 'reorganised',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/settle/states.ts',
        "  await sql`${operationRows.updating('retract', reverted(sql`outer_id is null`, operation))}`.execute(db)\n",
        '',
      ],
    ],
  },
  {
    name: 'restores a lost operation without its transaction',
    scenario: 'tail',
    caughtBy: 'hashes',
    patches: [['transactions/recovery/reconcile-operation.ts', 'for (const { intentId, hash } of operation.outers) await linkStored', 'for (const { intentId, hash } of operation.outers.slice(99)) await linkStored']], // prettier-ignore
  },
  {
    name: 'does not count what sponsors paid',
    scenario: 'plain',
    caughtBy: 'money',
    patches: [
      [
        'transactions/settle/count-operations.ts',
        'const wei = costs.get(id) ?? 0n',
        'const wei = 0n * (costs.get(id) ?? 0n)',
      ],
    ],
  },
  {
    name: 'fails most requests at first, and executes the retry',
    scenario: 'plain',
    caughtBy: 'answers',
    patches: [['transactions/pipeline.ts', '  await untilReplayed(app)\n', "  await untilReplayed(app)\n  if (Math.random() < 0.9) throw new Error('planted')\n"]], // prettier-ignore
  },
  {
    name: 'repacks a cancelled operation',
    scenario: 'cancelled',
    caughtBy: 'scenario',
    patches: [['transactions/sponsors/tend-operations.ts', "    .where('o.is_cancel', '=', false)\n", '']],
  },
]

/** The second table of `docs/evidence/proof-mutants.md`. */
export const sponsorMutantTable = (): string =>
  [
    '| mistake | scenario | caught by |',
    '|---|---|---|',
    ...sponsorMutants.map(({ name, scenario, caughtBy }) => `| ${name} | \`${scenario}\` | \`${caughtBy}\` |`),
  ].join('\n')

/** milliseconds that the few writes of a scenario take to settle at most, on a machine that is not slow: what a mutant gets, which has to fail */
const MUTANT_WINDOW_MS = 15_000
const BLOCK_MS = 150

export type SponsorOutcome = { problems: string[]; seconds: number }

/** Plays one scenario on the program, or on a copy of it with a mistake, and has it judged. */
export async function playSponsorScenario(
  name: SponsorScenarioName,
  { cluster, patches = [], code, windowMs }: { cluster: string; patches?: Mutant['patches']; code?: GasCode; windowMs?: number }, // prettier-ignore
): Promise<SponsorOutcome> {
  const startedAt = performance.now()
  const own = (sponsorScenarios[name] as { patches?: Mutant['patches'] }).patches ?? []
  const all = [...own, ...patches]
  const planted = all.length === 0 ? { home: PROJECT, remove: async () => {} } : await plant({ name, patches: all })
  const { sponsors, prepare } = withSponsors(code)
  const problems: string[] = []
  try {
    const world = await chaosWorld({ roll: fractionsOf(1), replicas: 2, cluster, accounts: 2, home: planted.home, settings: { LANE_BUMP_AFTER_SECONDS: '600' }, prepare }) // prettier-ignore
    const end = new AbortController()
    const stage = sponsorStageOf(world, sponsors, problems)
    const mining = (async () => {
      while (!end.signal.aborted) {
        await pause(BLOCK_MS)
        if (!stage.mining.isPaused) await world.node.mine()
      }
    })()
    try {
      await sponsorScenarios[name].play(stage).catch((error: unknown) => problems.push(`scenario: ${(error as Error).message}`)) // prettier-ignore
      stage.mining.isPaused = false
      const verdict = await judgeSponsored(sponsors)(world, stage.writes, windowMs === undefined ? {} : { windowMs })
      problems.push(...verdict.problems)
    } finally {
      end.abort()
      await mining
      await world.close()
    }
  } finally {
    await planted.remove()
  }
  return { problems, seconds: Math.round((performance.now() - startedAt) / 1_000) }
}

/** Whether what has to find it did; what else was found is no matter. */
export async function playSponsorMutant(
  mutant: SponsorMutant,
  cluster: string,
): Promise<{ isCaught: boolean; said: string; seconds: number }> {
  const { scenario, caughtBy } = mutant
  const code = 'dispatcher' in mutant ? await mistakenDispatcher(mutant.dispatcher) : undefined
  const patches = 'dispatcher' in mutant ? patchesFor(code!) : mutant.patches
  const { problems, seconds } = await playSponsorScenario(scenario, {
    cluster,
    patches,
    windowMs: MUTANT_WINDOW_MS,
    ...(code === undefined ? {} : { code }),
  })
  const found = problems.find((problem) => checkOf(problem) === caughtBy)
  return { isCaught: found !== undefined, said: found ?? `not by "${caughtBy}": ${problems.join('; ')}`, seconds }
}

/** Servers that look whether the code on the chain is the committed one take this for it. */
const patchesFor = ({ dispatcherCode }: GasCode): Mutant['patches'] => [
  ['gas/contracts.ts', 'dispatcherCode: fill(dispatcher, [padded(delegateAt), keccak(designatorOf(delegateAt))]),', `dispatcherCode: '${dispatcherCode}',`], // prettier-ignore
]

/** The code of a dispatcher with a mistake, as it would stand where the committed one does. */
async function mistakenDispatcher(what: string): Promise<GasCode> {
  const mutant = gasMutants.find((one) => one.what === what)
  if (mutant === undefined) throw new Error(`there is no mistake of the contracts called ${what}`)
  const sources = gasSources()
  const bytecode = compileGas({
    ...sources,
    [mutant.file]: sources[mutant.file].replace(mutant.old, () => mutant.mistaken),
  })
  const anvil = await startAnvil()
  try {
    const [from] = await anvil.rpc<Hex[]>('eth_accounts')
    const hash = await anvil.rpc<Hex>('eth_sendTransaction', { from, data: bytecode, gas: '0x7a1200' })
    await anvil.rpc('evm_mine')
    const { contractAddress: at } = await anvil.rpc<{ contractAddress: Hex }>('eth_getTransactionReceipt', hash)
    const selector = toHex(keccak(Buffer.from('delegate()')).subarray(0, 4))
    const delegate: Hex = `0x${(await anvil.rpc<Hex>('eth_call', { to: at, data: selector }, 'latest')).slice(26)}`
    const deployed = await anvil.rpc<Hex>('eth_getCode', at, 'latest')
    const hashOf = (address: Hex) => keccak(fromHex(`0xef0100${address.slice(2)}`)).toString('hex')
    // It knows of the delegate that it made: there it is the committed one.
    const dispatcherCode = deployed
      .replaceAll(delegate.slice(2), GAS.delegate.slice(2))
      .replaceAll(hashOf(delegate), hashOf(GAS.delegate)) as Hex
    return { dispatcherCode, delegateCode: GAS.delegateCode }
  } finally {
    await anvil.stop()
  }
}
