import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainNetwork, type NetworkFacts } from './network-facts.ts'
import { templatesAt } from './networks.ts'

const MINE: NetworkFacts = {
  ...{ name: 'mine', chainId: 5, symbol: 'ME', coin: 'Mine', finality: 'finalized', gas: 'self' },
  ...{ explorer: templatesAt('https://scan.example'), blockVerification: null, feeCapGwei: null },
}

test('each fact of a network that cannot be is named, and those at the bounds are none', () => {
  const space = `0x${'5a'.repeat(20)}` as const
  const cases: [Record<string, unknown>, RegExp | null][] = [
    [{}, null],
    [{ name: 'Mine' }, /^The name must be lower-case/],
    [{ name: 'm'.repeat(33) }, /^The name must be lower-case/],
    [{ chainId: 0 }, /chain id must be a whole number above 0/],
    [{ symbol: 'M E' }, /symbol must have 1 to 16 characters/],
    [{ coin: '' }, /name of the native currency/],
    [{ finality: 9_999 }, null],
    [{ finality: 10_000 }, /finality must be `finalized` or a number/],
    [{ finality: -1 }, /finality must be `finalized` or a number/],
    [{ blockVerification: 'count' }, null],
    [{ blockVerification: 'loose' }, /`hash`, `bloom` or `count`/],
    [{ feeCapGwei: 1 }, null],
    [{ feeCapGwei: 0 }, /fee cap must be a whole number of gwei above 0/],
    [{ feeCapGwei: 1.5 }, /fee cap must be a whole number of gwei above 0/],
    [{ gas: 'topup' }, null],
    [{ gas: 'free' }, /must be `self`, `topup` or `sponsor`/],
    [{ gas: 'sponsor' }, /needs a gas space/],
    [{ gas: 'sponsor', gasSpace: space, delegate: 'calibur' }, null],
    [{ gas: 'sponsor', gasSpace: '0x1' }, /gas space must be the address/],
    [{ delegate: 'other' }, /delegate must be `chatelaine` or `calibur`/],
    [{ topUpContracts: [space] }, null],
    [{ topUpContracts: ['0x12'] }, /0x12 must be 0x and 40 hexadecimal digits/],
    [{ topUpContracts: ['0x5fbDB2315678afecb367f032d93F642f64180aa3'] }, /wrong checksum/],
    [{ sponsorPerDay: `${2n ** 256n - 1n}`, sponsorLow: '0' }, null],
    [{ sponsorPerDay: '1e18' }, /spend in a day must be wei/],
    [{ sponsorLow: `${2n ** 256n}` }, /counts as low must be wei/],
    [{ sponsorLow: '-1' }, /counts as low must be wei/],
    [{ backfillFrom: 0 }, null],
    [{ backfillFrom: -1 }, /whole number, 0 or greater/],
    [{ explorer: { ...MINE.explorer, tx: 'https://x.example/tx' } }, /must contain \{hash\}/],
  ]
  for (const [changes, problem] of cases) {
    const problems = explainNetwork({ ...MINE, ...changes } as NetworkFacts)
    assert.equal(problems.length, problem === null ? 0 : 1, `${JSON.stringify(changes)}: ${JSON.stringify(problems)}`)
    if (problem !== null) assert.match(problems[0]!.detail, problem)
  }
})
