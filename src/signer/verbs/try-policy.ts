import type { RunBeside } from '../beside.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { LedgerRow } from '../ledger/record.ts'
import { readPolicyVersion, type PolicyVersion } from '../policy/accept.ts'
import { PolicyInvalid } from '../policy/json.ts'
import { isSigned, openSigned } from '../policy/jws.ts'
import { describePolicy, findDoubts } from '../policy/words.ts'
import { openReplay, type ReplayedSignature } from '../programs/replay.ts'
import { readTryPolicyRequest } from '../request.ts'
import type { PolicyLimits } from '../rules/policy.ts'
import type { PolicyInForce } from '../rules/policy-in-force.ts'
import { MAX_LISTED_TRIALS, MAX_TRIED, type PolicyDifference, type PolicyTrial } from '../../signer-wire/wire.ts'

/** Records per piece of work: signatures wait for one piece at most. */
const PIECE = 20

/**
 * Handles the verb `tryPolicy`. The draft is never in force, and nothing is written. Needs no token: the server may read the
 * ledger anyway.
 * Errors: bad_request, overloaded.
 */
export async function tryPolicy(
  { ledger, policy, limits, beside }: { ledger: Pick<Ledger, 'head' | 'signaturesSince'>; policy: Pick<PolicyInForce, 'current'>; limits: Pick<PolicyLimits, 'chains'>; beside: RunBeside }, // prettier-ignore
  request: unknown,
): Promise<PolicyTrial> {
  const { text } = readTryPolicyRequest(request)
  const draft = await beside(() => readDraft(text))
  if ('problem' in draft) return draft
  const { document, hash } = draft
  const current = policy.current()
  const byDraft = openReplay(document)
  const byCurrent = current === null ? () => null : openReplay(current.document)
  const last = ledger.head().count
  const first = Math.max(0, last - MAX_TRIED) + 1
  const found = { signatures: 0, refused: 0, allowed: 0 }
  let differences: PolicyDifference[] = []
  for (let after = first - 1; after < last;) {
    const next = await beside(() => {
      const rows = ledger.signaturesSince(after, PIECE).filter(({ seq }) => seq <= last)
      for (const row of rows) compare(row)
      return rows.at(-1)?.seq ?? last
    })
    after = next
  }
  return {
    problem: null,
    ...{ version: document.version, hash, words: describePolicy(document) },
    doubts: findDoubts(document, limits.chains),
    records: { first, last },
    ...found,
    differences,
  }

  function compare(row: LedgerRow): void {
    const tried = byDraft(row)
    const now = byCurrent(row)
    if (tried === null) return
    found.signatures += 1
    const [refusal, before] = [tried.refusal, now?.refusal ?? null]
    if ((refusal === null) === (before === null)) return
    found[refusal === null ? 'allowed' : 'refused'] += 1
    const difference = refusal === null ? differenceOf(row, now!, 'in force') : differenceOf(row, tried, 'draft')
    differences = [difference, ...differences].slice(0, MAX_LISTED_TRIALS)
  }
}

/** Returns the draft, or why it is not a policy. */
function readDraft(text: string): PolicyVersion | { problem: string } {
  try {
    return readPolicyVersion(isSigned(text) ? openSigned(text, []).document : text)
  } catch (error) {
    if (!(error instanceof PolicyInvalid)) throw error
    return { problem: error.message }
  }
}

function differenceOf(
  { intent_id: intentId }: LedgerRow,
  { refusal, ...signature }: ReplayedSignature,
  refusedBy: PolicyDifference['refusedBy'],
): PolicyDifference {
  return { ...signature, intentId: intentId!, refusedBy, ...refusal! }
}
