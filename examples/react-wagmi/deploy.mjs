// Deploys the two tokens and the exchange to a local network: node deploy.mjs > .env.local
import { deploy } from '../../src/devnet/deploy.ts'

const addresses = await deploy(process.argv[2] ?? 'http://127.0.0.1:8545', ['PermitToken', 'SampleToken', 'SwapRouter'])
for (const [at, name] of ['VITE_SOLD', 'VITE_BOUGHT', 'VITE_ROUTER'].entries()) console.log(`${name}=${addresses[at]}`)
