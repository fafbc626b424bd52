/** `node --import ./test/record-modules.mjs`: writes what the process resolves, whenever it does, to the file RECORD_MODULES. */
import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    appendFileSync(process.env.RECORD_MODULES, `${found.url}\n`)
    return found
  },
})
