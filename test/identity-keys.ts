import type { IdentityKeys } from '../src/app.ts'
import { identityKeysOf, newIdentityKey } from '../src/oauth/identity-keys.ts'

/** Of an authorization server that proves identities. */
export const madeIdentityKeys = (): IdentityKeys => identityKeysOf([newIdentityKey()])

/** Of a program that knows no key: linked identities lead nowhere, first ones to their own accounts. */
export const noIdentityKeys: IdentityKeys = { signing: null, known: new Map() }
