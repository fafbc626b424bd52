import { after, before, suite, test } from 'node:test'
import { evms, type Evm } from './evm.ts'
import { calibur } from './scenarios-calibur.ts'
import { openStage, type Stage } from './stage.ts'

/**
 * A stand-in is at the address of Calibur, written from its interface; CALIBUR_CODE=file has Calibur's own code there instead, hexadecimal digits
 * as `eth_getCode` answers them.
 */
for (const [name, open] of Object.entries(evms))
  suite(`operations for Calibur on ${name}`, () => {
    let evm: Evm
    let stage: Stage
    before(async () => {
      evm = await open()
      stage = await openStage(evm, undefined, 'calibur')
    })
    after(() => evm?.close())

    for (const [sentence, look] of calibur) test(sentence, () => stage.apart(() => look(stage)))
  })
