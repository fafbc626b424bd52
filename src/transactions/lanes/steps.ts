import type { App } from '../../app.ts'
import type { SignOperationRequest } from '../../signer-wire/wire.ts'
import { bind } from './bind.ts'
import { bindOperation } from './bind-operation.ts'
import { broadcast, giveToNode } from './broadcast.ts'
import { between, type Step } from '../crash-points.ts'
import { signFill, signFirst, signReplacement } from './sign.ts'
import { storeFill, storeFirst, storeReplacement } from './store.ts'

/** Names the point after a signing step, which is reached only if something was signed. */
const signedAt =
  (step: Step) =>
  ({ kind }: { kind: string }): Step | null =>
    kind === 'signed' ? step : null

/** The steps of a write, in order. A test may kill the process between them; recovery then finishes the write. */
export const first = {
  bind: between({ before: 'before-bind', after: 'after-bind' }, bind),
  sign: between({ after: signedAt('after-sign') }, signFirst),
  store: between({ after: 'after-store' }, storeFirst),
  broadcast: between({ after: 'after-broadcast' }, giveToNode),
}

/** The steps of a replacement: a fee bump or cancellation for a nonce that already has a signed transaction. */
export const replacement = {
  sign: between({ before: 'before-replace', after: 'after-replace-sign' }, signReplacement),
  store: between({ after: 'after-replace-store' }, storeReplacement),
  broadcast: between({ after: 'after-replace-broadcast' }, broadcast),
}

/** The steps of a gap-filling cancellation, for a nonce without a signed transaction. */
export const fill = {
  sign: between({ before: 'before-fill', after: signedAt('after-fill-sign') }, signFill),
  store: between({ after: 'after-fill-store' }, storeFill),
}

/** The steps of a sponsor's transaction that includes operations. */
export const outer = {
  bind: between({ before: 'before-pack', after: 'after-bind-outer' }, bind),
  sign: between({ after: signedAt('after-sign-outer') }, signFirst),
  store: between({ after: 'after-store-outer' }, storeFirst),
  broadcast: between({ after: 'after-broadcast' }, giveToNode),
}

/** The steps of an operation until a transaction includes it. */
export const operation = {
  bind: between(
    { before: 'before-bind-operation', after: (result) => (result === 'bound' ? 'after-bind-operation' : null) },
    bindOperation,
  ),
  sign: between({ after: 'after-sign-operation' }, (app: App, request: SignOperationRequest) =>
    app.signer.signOperation(request),
  ),
}
