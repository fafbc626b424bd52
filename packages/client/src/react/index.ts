import {
  createContext,
  createElement,
  useContext,
  useMemo,
  useSyncExternalStore,
  type ReactElement,
  type ReactNode,
} from 'react'
import { createClient, type Client, type ClientOptions } from '../index.ts'
import type { Session, SessionState } from '../session.ts'

type Settings = Omit<ClientOptions, 'session' | 'token'> & { session: Session }

const Context = createContext<{ session: Session; wallet: Client } | null>(null)

/** Provides the session and its wallet to the components inside. */
export function WalletProvider({ children, ...settings }: Settings & { children?: ReactNode }): ReactElement {
  const { session, origin } = settings
  // oxlint-disable-next-line react-hooks/exhaustive-deps -- other settings are those of the first render
  const value = useMemo(() => ({ session, wallet: createClient(settings) }), [session, String(origin)])
  return createElement(Context.Provider, { value }, children)
}

function useValue() {
  const value = useContext(Context)
  if (value === null) throw new Error('Put <WalletProvider> around this component.')
  return value
}

/**
 * Returns the state of the session, and renders again when it changes. During rendering on a server, the state is
 * `unknown`.
 */
export function useSession(): SessionState & Pick<Session, 'signIn' | 'signOut'> {
  const { session } = useValue()
  const acts = useMemo(
    () => ({
      signIn: (options?: Parameters<Session['signIn']>[0]) => session.signIn(options),
      signOut: () => session.signOut(),
      subscribe: (changed: () => void) => session.subscribe(changed),
    }),
    [session],
  )
  const state = useSyncExternalStore(
    acts.subscribe,
    () => session.state,
    () => UNKNOWN,
  )
  return { ...state, signIn: acts.signIn, signOut: acts.signOut }
}

const UNKNOWN: SessionState = { status: 'unknown' }

/** Returns the client of the user; null unless a user is signed in. */
export function useWallet(): Client | null {
  const { wallet } = useValue()
  return useSession().status === 'signed-in' ? wallet : null
}

type ButtonProps = {
  /** texts of the button */
  signIn?: ReactNode
  signOut?: ReactNode
  permissions?: readonly string[]
  className?: string
  /** receives errors of `signIn` or `signOut`; if absent, the browser reports them as unhandled rejections */
  onError?: (error: unknown) => void
}

/** Renders a button that signs in or out. It is disabled while the session is unknown. */
export function SignInButton({
  signIn = 'Sign in',
  signOut = 'Sign out',
  permissions,
  className,
  onError,
}: ButtonProps): ReactElement {
  const session = useSession()
  const isIn = session.status === 'signed-in'
  const onClick = () => {
    const done = isIn ? session.signOut() : session.signIn(permissions === undefined ? {} : { permissions })
    if (onError !== undefined) done.catch(onError)
  }
  return createElement(
    'button',
    { type: 'button', className, disabled: session.status === 'unknown', onClick },
    isIn ? signOut : signIn,
  )
}
