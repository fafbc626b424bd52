import { randomUUID } from 'node:crypto'
import { ClientError, SignedOut } from '@chatelaine/client'
import { redirect } from 'next/navigation'
import { auth, openWallet, readSession } from '../auth.js'

export default async function Page({ searchParams }) {
  const session = await readSession()
  // A page cannot set cookies: the browser fetches new ones, and comes back.
  if (session?.mustRenew) redirect(auth.renewUrl('/'))
  const account = session && (await readAccount())
  const { message } = await searchParams
  if (!account) return <a href="/auth/sign-in">Sign in</a>
  return (
    <main>
      <h1>{session.user.username}</h1>
      <p>{session.user.address}</p>
      <h2>Balances</h2>
      <ul>
        {account.balances.map(({ tokenAddress, formatted, symbol }) => (
          <li key={tokenAddress ?? symbol}>{`${formatted} ${symbol}`}</li>
        ))}
      </ul>
      <h2>Send</h2>
      <form action={send}>
        <input type="hidden" name="key" value={randomUUID()} />
        <input name="to" aria-label="Recipient" required defaultValue="DEV-bob" />
        <input name="amount" aria-label="Amount" required inputMode="decimal" defaultValue="0.01" />
        <select name="token" aria-label="Currency">
          {account.balances.map(({ tokenAddress, symbol }) => (
            <option key={tokenAddress ?? ''} value={tokenAddress ?? ''} label={symbol} />
          ))}
        </select>
        <button>Send</button>
      </form>
      <p role="status">{/^\w+$/.test(message ?? '') && message}</p>
      <h2>History</h2>
      <ol>
        {account.history.map(({ id, from, to, amount }) => (
          <li key={id}>{`${amount.value} ${amount.symbol ?? ''}: ${from.address} → ${to.address}`}</li>
        ))}
      </ol>
      <form action="/auth/sign-out" method="post">
        <button>Sign out</button>
      </form>
    </main>
  )
}

/** Returns null if the session has ended at the service. */
async function readAccount() {
  const wallet = await openWallet()
  try {
    const [balances, history] = await Promise.all([wallet.balances().page(), wallet.history({ limit: 10 }).page()])
    return { balances: balances.items, history: history.items }
  } catch (error) {
    if (error instanceof SignedOut) return null
    throw error
  }
}

async function send(form) {
  'use server'
  const wallet = await openWallet()
  let message = 'sent'
  try {
    const { key, to, amount, token } = Object.fromEntries(form)
    const asset = token === '' ? {} : { token }
    // The key comes from the form: a form that is submitted twice sends once.
    const transfer = await wallet.transfer({ to, amount, ...asset }, { idempotencyKey: key })
    await transfer.mined()
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    message = error.code
  }
  redirect(`/?message=${message}`)
}
