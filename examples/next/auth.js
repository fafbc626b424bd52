import 'server-only'
import { createAuth } from '@chatelaine/client/server'
import { cookies, headers } from 'next/headers'

const { WALLET_ORIGIN, CLIENT_ID, CLIENT_SECRET, COOKIE_SECRET, APP_ORIGIN } = process.env

export const auth = createAuth({
  origin: WALLET_ORIGIN ?? 'http://localhost:4000',
  clientId: CLIENT_ID ?? 'demo',
  clientSecret: CLIENT_SECRET, // `demo` has none
  redirectUri: `${APP_ORIGIN ?? 'http://localhost:3000'}/auth/callback`,
  cookieSecret: COOKIE_SECRET,
})

/** The session of the user who makes the request; null if nobody is signed in. */
export const readSession = async () => auth.session({ headers: await headers() }, { cookies: await cookies() })

/** The wallet of that user. */
export const openWallet = async () => auth.client({ headers: await headers() }, { cookies: await cookies() })
