/** `node --import ./test/without-native.mjs`: a machine for which nobody built the native secp256k1. */
import { registerHooks } from 'node:module'

registerHooks({
  resolve(specifier, context, next) {
    if (specifier.startsWith('secp256k1/')) throw new Error('there is no binding for this machine')
    return next(specifier, context)
  },
})
