/** The parts of a page that a sign-in uses; tests pass their own. */
export type Page = {
  /** the address of the page */
  href(): string
  /** Opens an empty window. @returns null if the browser does not allow it, or if a redirect works better here */
  open(): Popup | null
  goTo(url: string): void
  /** Replaces the address, so that "back" does not lead to a used code. */
  replace(url: string): void
  close(): void
  /** whether the user is on this page */
  hasFocus(): boolean
  channel(name: string): Channel
}

export type Popup = { goTo(url: string): void; isClosed(): boolean; close(): void }
export type Channel = {
  post(message: unknown): void
  listen(listener: (message: unknown) => void): void
  close(): void
}

const SIZE = 'popup,width=480,height=720'

/** The page that runs this code. */
export const thisPage: Page = {
  href: () => location.href,
  open() {
    if (prefersRedirect(navigator)) return null
    const opened = window.open('about:blank', '_blank', SIZE)
    if (opened === null) return null
    return {
      goTo: (url) => void (opened.location.href = url),
      isClosed: () => opened.closed,
      close: () => opened.close(),
    }
  },
  goTo: (url) => location.assign(url),
  replace: (url) => location.replace(url),
  close: () => window.close(),
  hasFocus: () => document.hasFocus(),
  channel(name) {
    const channel = new BroadcastChannel(name)
    return {
      post: (message) => channel.postMessage(message),
      listen: (listener) => void (channel.onmessage = ({ data }) => listener(data)),
      close: () => channel.close(),
    }
  },
}

/** Tells whether windows do not work here: on iOS, whose windows lose their opener, and in browsers inside applications. */
export const prefersRedirect = ({
  userAgent,
  maxTouchPoints,
}: {
  userAgent: string
  maxTouchPoints: number
}): boolean =>
  /iPhone|iPad|iPod/.test(userAgent) ||
  (/Macintosh/.test(userAgent) && maxTouchPoints > 1) ||
  /\bFBA[NV]\/|Instagram|Line\/|MicroMessenger|TikTok|Snapchat|; wv\)/.test(userAgent)
