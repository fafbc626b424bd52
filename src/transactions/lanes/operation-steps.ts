import type { App } from '../../app.ts'
import type { SignOperationRequest } from '../../signer/wire.ts'
import { bindOperation } from './bind-operation.ts'
import { between } from '../crash-points.ts'

/** The steps of an operation until it is packed, as `steps.ts` has those of a transaction. */
export const operation = {
  bind: between(
    { before: 'before-bind-operation', after: (result) => (result === 'bound' ? 'after-bind-operation' : null) },
    bindOperation,
  ),
  sign: between({ after: 'after-sign-operation' }, (app: App, request: SignOperationRequest) =>
    app.signer.signOperation(request),
  ),
}
