import type { IdentityKeys } from '../src/app.ts'
import { identityKeysOf, newIdentityKey } from '../src/oauth/identity-keys.ts'

/** Of an authorization server that proves identities. */
export const madeIdentityKeys = (): IdentityKeys => identityKeysOf([newIdentityKey()])

/** Of an installation from before identities were proven. */
export const noIdentityKeys: IdentityKeys = { signing: null, known: new Map() }
