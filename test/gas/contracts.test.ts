// tier: all, because it runs every scenario in two EVMs
import { after, before, suite, test } from 'node:test'
import { evms, type Evm } from './evm.ts'
import { account } from './scenarios-account.ts'
import { limits } from './scenarios-limits.ts'
import { authority } from './scenarios.ts'
import { openStage, type Stage } from './stage.ts'

for (const [name, open] of Object.entries(evms))
  suite(`the contracts of sponsored gas on ${name}`, () => {
    let evm: Evm
    let stage: Stage
    before(async () => {
      evm = await open()
      stage = await openStage(evm)
    })
    after(() => evm?.close())

    for (const [sentence, look] of [...authority, ...limits, ...account])
      test(sentence, () => stage.apart(() => look(stage)))
  })
