// tier: all, because each mechanism that is switched off runs a test file in a process of its own
import { CLAIMS, SECURITY_ROWS } from './security-rows.ts'
import { mutantsOf } from './source-mutants.ts'

/** The tests of docs/evidence/security.md fail when what they are about is gone. */
const mechanisms = Object.values(SECURITY_ROWS).flatMap((row) => row.mechanisms)
mutantsOf('mechanisms of SECURITY.md', [...mechanisms, ...CLAIMS], '.')
