import { describeError, type ErrorCode } from '../errors.ts'

/** A sentence with emphasised parts, in the order of its language. */
export type Rich = (string | { strong: string })[]

/** Pages of signing in, of allowing, of signing out, and every refusal that a person can come across. */
const signingIn = {
  chooser: {
    title: (application: string) => `Sign in to ${application}`,
    hint: 'with an account you already have.',
    worksOn: (application: string, network: string): Rich => [
      `${application} works on the network `,
      { strong: network },
      '.',
    ],
    continueWith: (provider: string) => `Continue with ${provider}`,
    development: 'This is a development installation: anyone can sign in as anyone. Nothing here is worth anything.',
    cancel: 'Cancel',
    cancelTo: (application: string) => `Cancel and go back to ${application}`,
    back: 'Back to the sign-in page',
  },
  consent: {
    title: (application: string) => `Allow ${application}`,
    question: (application: string) => `Allow ${application} to use your account?`,
    willBeAble: (application: string, network: string): Rich => [
      'On the network ',
      { strong: network },
      `, ${application} will be able to`,
    ],
    always: 'know your name, your picture and your account’s address',
    isNew: 'new',
    warning: (application: string) =>
      `Transactions are sent in your name, without asking you each time. Allow this only if you trust ${application}.`,
    allow: 'Allow',
    deny: 'Do not allow',
    never: (application: string) =>
      `${application} never gets your keys or your password. This holds until you take it back on your account page, /account; you are asked again only if it wants more.`,
    eachTime: (application: string) =>
      `${application} never gets your keys or your password. It runs on this device and cannot prove what it is, so you are asked at every sign-in: allow it only if you have just started it yourself. You take it back on your account page, /account.`,
  },
  /** permissions in words of everyday, after “will be able to” */
  meanings: {
    email: 'know your e-mail address',
    'wallet:read': 'see your balances and your transfers',
    'contracts:read': 'read data from contracts',
    'contracts:write': 'send transactions and spend from your account',
    'users:read': 'see your name, your balances and your transfers at any time, also when you are not using it',
    'users:directory': 'look up other people who use it, and let them look up your name, picture and address',
  } as Record<string, string>,
  leaving: {
    title: 'Sign out',
    question: 'Sign out?',
    here: 'You stay signed in on this device until you sign out.',
    stillHere: (application: string) =>
      `${application} has signed you out. You are still signed in here, so the next sign-in would not ask who you are.`,
    yes: 'Sign out here too',
    no: 'Stay signed in',
    doneTitle: 'Signed out',
    done: 'You are signed out',
    doneOf: (application: string) => `You are signed out of ${application}`,
    close: 'You can close this page.',
  },
  refused: {
    /** what the code of an error means, and what helps */
    title: (code: ErrorCode): string => describeError(code).title,
    help: (code: ErrorCode): string => describeError(code).help,
    code: 'Code:',
    ourFault: 'Our fault',
    badSignIn: {
      pageTitle: 'Sign-in',
      title: 'This sign-in cannot begin',
      hint: 'The application asked for it in a way that is not accepted. Go back to it, and tell its developer:',
    },
    badSignOut: {
      pageTitle: 'Sign out',
      title: 'This sign-out cannot be done',
      hint: 'The application asked for it in a way that is not accepted, and you are still signed in here. Tell its developer:',
    },
    malformed: 'The request is malformed.',
    unknownClient: 'There is no application with this client_id here, or the operator suspended it.',
    over: 'It expired, was finished already, or was started in another browser.',
    signedOut: 'You are no longer signed in.',
    notOurForm: 'The form was not sent from our page.',
    noProvider: 'This installation has no identity provider of that name.',
    noState: (provider: string) => `The answer of ${provider} holds no state.`,
    cancelled: (provider: string) => `You cancelled the sign-in with ${provider}, or it refused you.`,
    notThisWay: (provider: string) => `${provider} does not answer this way.`,
    notAgain: (provider: string) =>
      `${provider} did not ask you again who you are, which was wanted here. Sign out there first, then repeat it.`,
    failedCheck: (provider: string) => `The answer of ${provider} did not pass a check.`,
    away: (provider: string) => `${provider} does not answer at the moment. Try again, or sign in another way.`,
  },
}

/**
 * English texts of all pages for people, in one place: a translation is another object of this shape, and the few
 * words around every page in http/page.ts. Plain text, escaped where it is shown.
 */
export const texts = {
  ...signingIn,
  title: 'Your account',
  signOut: 'Sign out',
  address: 'Your address',
  copy: 'Copy the address',
  copied: 'Copied',
  addressHint: 'The same on every network and in every application. Select it to copy it, or scan the code.',
  qrLabel: 'QR code of your address',
  balances: (network: string) => `On ${network}`,
  unreadable: 'This network does not answer at the moment. Nothing is lost: look again later.',
  transfers: 'Latest transfers',
  noTransfers: 'No transfers of tokens yet.',
  received: (from: string) => `from ${from}`,
  created: 'newly created',
  destroyed: 'destroyed',
  sent: (to: string) => `to ${to}`,
  toMyself: 'to yourself',
  sentByApplications: 'Latest transactions of applications',
  states: {
    SUBMITTED: 'on its way',
    MINED: 'done',
    FINALIZED: 'done for good',
    REVERTED: 'refused by the contract',
    FAILED: 'failed',
    REPLACED: 'replaced by another',
    CANCELLED: 'cancelled',
  },
  applications: 'Applications you allowed',
  noApplications: 'None. An application appears here after you signed in to it.',
  mayAlways: 'know your name, your picture and your address',
  signIns: (count: number) =>
    count === 1 ? 'signed in once' : count === 0 ? 'not signed in' : `signed in ${count} times`,
  revoke: 'Take back',
  revokeLabel: (name: string) => `Take back what ${name} may do`,
  identities: 'Ways to sign in',
  identitiesHint: 'Each of them leads to this one account.',
  firstIdentity: 'first',
  firstHint: 'The first one stays: the account is known by it.',
  remove: 'Remove',
  removeLabel: (name: string) => `Remove ${name}`,
  add: (provider: string) => `Add one from ${provider}`,
  sessions: 'Where you are signed in',
  sessionsHint:
    'Signing a browser out ends its visits here. Applications stay signed in until you sign out everywhere or take back what they may do.',
  thisBrowser: 'this browser',
  since: (time: string) => `since ${time}`,
  signOutLabel: (time: string) => `Sign out the browser that signed in ${time}`,
  signOutOthers: 'Sign out all other browsers',
  signOutEverywhere: 'Sign out everywhere, applications too',
  signedOutEverywhere:
    'In every browser and in every application, within a minute. Applications still need not ask you again what they may do.',
  unlinkedHere:
    'You came by the way that you removed. Whatever else came by it has ended too. You can close this page.',
  erase: 'Delete my data',
  eraseTitle: 'Delete your data?',
  eraseGoes: [
    'your name, your picture and your e-mail address',
    'which applications you used and what you allowed them; they are signed out',
    'every way to sign in except the first one',
    'where you are signed in; you are signed out everywhere',
  ],
  eraseStays: [
    'Everything that is on a chain: your address, its balances and its transfers are public, and nobody can delete them.',
    'The id of your account and its address, with the record of its transactions, because they belong to what is on the chain.',
    'The key of your account, in the signer: without it, whatever the address holds would be lost.',
  ],
  eraseGoesTitle: 'This is deleted',
  eraseStaysTitle: 'This stays',
  eraseBack: (identity: string) =>
    `Whoever signs in as ${identity} again finds the same account. If you cannot sign in that way any more, move what the account holds elsewhere first.`,
  eraseSure: 'I understand what is deleted and what stays',
  eraseDo: 'Delete my data',
  eraseCancel: 'Keep everything',
  signedOut: 'You are signed out',
  signedOutHint: 'You can close this page.',
  erased: 'Your data is deleted',
  erasedHint: 'You are signed out everywhere. You can close this page.',
  notSignedIn: 'You are not signed in',
  signIn: 'Sign in',
  back: 'Back to your account',
  otherBrowser: 'It expired, or you are no longer signed in here as you were when it began.',
  notSure: 'The box was not ticked: nothing was deleted.',
  /** what has just been done, by the code in the address */
  done: {
    again: 'You signed in again. Now repeat what you wanted to do.',
    revoked: 'Taken back. The application has to ask you again, and its access ends within a minute.',
    linked: 'Added. You can sign in to this account that way now.',
    already_linked: 'That one leads to this account already.',
    has_own_account:
      'That one has an account of its own here, which may hold something, so it cannot be added to this one. Sign in with it to use that account.',
    unlinked:
      'Removed. Signing in that way leads to another account from now on, and every browser and application that came by it is signed out within a minute.',
    kept: 'It could not be removed: it is the first one, or was gone already.',
    signed_out: 'Signed out there.',
  } as Record<string, string>,
}

/** A moment as people everywhere read it. */
export const timeText = (time: Date): string =>
  `${new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' }).format(time)} UTC`
