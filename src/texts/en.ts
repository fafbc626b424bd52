import { approvals } from './approvals.ts'
import { consoleTexts } from './console.ts'
import { exporting } from './exporting.ts'
import { native } from './native.ts'
import { signatures } from './signatures.ts'
import { wallet } from './wallet.ts'
import type { PageCode } from './page-code.ts'
import type { Rich } from './rich.ts'
import { userMessages } from './user-messages-en.ts'

/** The English texts, and the shape of every other language: one that lacks a text does not compile. */
export const en = {
  /** for `lang`, for the browser’s preference, and for how numbers and times are written */
  language: 'en',
  /** how times are written: day, month and year in this order */
  locale: 'en-GB',
  around: {
    notice: 'Notice',
    account: 'Your account',
    links: 'About this service',
    support: 'Support',
    privacy: 'Privacy',
    terms: 'Terms',
  },
  networks: {
    /** a network whose currency is worth something */
    main: (family: string) => `${family} network`,
    test: (family: string) => `${family} test network`,
    testNamed: (family: string, name: string) => `${family} test network (${name})`,
    unknown: (chainId: string) => `network ${chainId}`,
  },
  front: {
    title: 'Wallet accounts',
    what: 'Sign in with an account you already have. This service holds a wallet for you, and applications can use it on your behalf, as far as you permit.',
    account: 'See your balances, your activity, and the applications with access.',
    open: 'Open your account',
    developers: 'For developers',
    api: 'API',
    reference: 'reference',
    openapi: 'OpenAPI 3.1',
    errors: 'errors',
    issuer: 'Sign-in',
    networks: 'Networks',
    chainId: (name: string, chainId: string) => `${name} (chain id ${chainId})`,
    explorer: 'Explorer',
    blocks: 'blocks of the development chain',
  },
  missing: {
    title: 'Page not found',
    heading: 'There is nothing at this address',
    hint: 'The link may be outdated or incomplete. If an application sent you here, go back to it and try again.',
    front: 'Start page',
  },
  development: {
    strip: 'Development installation: anyone can sign in as anyone.',
    title: 'Development sign-in',
    notice: 'Development only: no password, no real identity',
    heading: 'Who do you want to be?',
    hint: 'This sign-in exists in development only. Choose any name. The same name is always the same user.',
    username: 'User name',
    invalid: 'This is not a valid user name.',
    rule: '1 to 64 letters, digits, dots, hyphens or underscores, beginning with a letter or a digit. Case does not matter.',
    signIn: 'Sign in',
    cancel: 'Cancel',
    over: 'This sign-in is no longer valid',
    overHint: 'Go back to the application and sign in again.',
  },
  chooser: {
    title: (application: string) => `Sign in to ${application}`,
    ownTitle: 'Sign in to your account',
    hint: 'with an account you already have.',
    worksOn: (application: string, network: string): Rich => [`${application} uses the `, { strong: network }, '.'],
    continueWith: (provider: string) => `Continue with ${provider}`,
    development: 'This is a development installation: anyone can sign in as anyone. Nothing here has any value.',
    cancel: 'Cancel',
    cancelTo: (application: string) => `Cancel and go back to ${application}`,
    back: 'Back to the sign-in page',
    /** why a user must sign in again, by what they wanted; `spends`: to allow an application to spend */
    why: {
      send: 'To send, you must have signed in within the last 15 minutes. Sign in again to continue.',
      approve: 'To approve a request, you must have signed in within the last 15 minutes. Sign in again to continue.',
      export: 'To export your key, you must have signed in within the last 5 minutes. Sign in again to continue.',
      again:
        'To make this change, you must have signed in within the last 15 minutes. Sign in again, then repeat the change.',
      spends:
        'To let an application spend, you must have signed in within the last 15 minutes. Sign in again to continue.',
    },
  },
  consent: {
    title: (application: string) => `Allow ${application}`,
    question: (application: string) => `Allow ${application} to use your account?`,
    willBeAble: (application: string, network: string): Rich => [
      'On the ',
      { strong: network },
      `, ${application} will be able to`,
    ],
    always: 'see your name, your picture and your account’s address',
    isNew: 'new',
    spends: (application: string) => `${application} will be able to spend everything in your account`,
    spendsHint: (application: string) =>
      `${application} can send transactions on your behalf without asking you each time, and without a limit. Allow this only if you trust the application.`,
    spendsTest:
      'The application can send transactions on your behalf without asking you each time. On a test network, nothing is worth real money.',
    allow: 'Allow',
    deny: 'Do not allow',
    never: (application: string) => `${application} never gets your keys or your password.`,
    until: 'Access lasts until you revoke it. You are asked again only if the application requests more.',
    eachTime:
      'The application runs on this device and cannot prove its identity, so you are asked at every sign-in. Allow access only if you have just started the application yourself.',
    where: 'Revoke access at any time in your account',
    switch: 'Use another account',
    /** for an application of the operator's own, instead of `question`, `spends` and `allow` */
    ownTitle: (application: string) => `Continue to ${application}`,
    ownQuestion: (application: string) => `Continue to ${application} with this account?`,
    ownHint: (application: string, operator: string) => `${operator} runs ${application} and this page.`,
    ownAllow: 'Continue',
  },
  /** permissions in everyday words, after “will be able to” */
  meanings: {
    email: 'see your e-mail address',
    'wallet:read': 'see your balances and your transfers',
    'contracts:read': 'read data from smart contracts',
    'contracts:write': 'send transactions and spend from your account',
    'messages:sign':
      'sign messages without asking you each time: sign-ins to itself and, if it may spend, payments and permissions to take tokens, within this service’s limits. Other messages need your approval',
    'users:read': 'see your name, your balances and your transfers at any time, even when you are not using it',
    'users:directory':
      'find other users of this application by name, and let them find your name, your picture and your account’s address',
  } as Record<string, string>,
  leaving: {
    title: 'Sign out',
    question: 'Sign out?',
    here: 'You stay signed in on this device until you sign out.',
    stillHere: (application: string) =>
      `${application} has signed you out. You are still signed in here, so the next sign-in will not ask who you are.`,
    yes: 'Sign out here too',
    no: 'Stay signed in',
    doneTitle: 'Signed out',
    done: 'You are signed out',
    doneOf: (application: string) => `You are signed out of ${application}`,
    close: 'You can close this page.',
  },
  refused: {
    code: 'Code:',
    badSignIn: {
      pageTitle: 'Sign-in',
      title: 'This sign-in cannot be started',
      hint: 'The application sent an invalid request. Go back to the application, and report this to its developer:',
    },
    badSignOut: {
      pageTitle: 'Sign out',
      title: 'This sign-out is not possible',
      hint: 'The application sent an invalid request, and you are still signed in here. Report this to its developer:',
    },
    malformed: 'The request is malformed.',
    over: 'It has expired, was already completed, or was started in another browser.',
    signedOut: 'You are no longer signed in.',
    notOurForm: 'The form was not sent from our page.',
    noProvider: 'This installation has no identity provider with that name.',
    noState: (provider: string) => `The response from ${provider} has no state parameter.`,
    cancelled: (provider: string) => `The sign-in with ${provider} was cancelled or rejected. Try again.`,
    notThisWay: (provider: string) => `${provider} responded in an unexpected way. Try again.`,
    notAgain: (provider: string) =>
      `${provider} did not ask you to sign in again, which is required here. Sign out there first, then try again.`,
    cannotLink: (provider: string) =>
      `You can sign in with ${provider}, but you cannot add this sign-in to an account: the operator has not confirmed that it is safe.`,
    failedCheck: (provider: string) => `The response from ${provider} could not be verified.`,
    away: (provider: string) => `${provider} is not responding at the moment. Try again, or sign in another way.`,
    otherBrowser: 'This step expired, or you are no longer signed in here as when it began.',
    notSure: 'The box was not ticked, so nothing was deleted.',
  },
  /** title of a refusal that has none in `codes`; its help is the text of `userMessages` */
  failed: 'This did not work',
  /** errors that users can meet on a page: what happened, and what helps */
  codes: {
    sign_in_expired: ['This sign-in is no longer valid', 'Go back to the application and sign in again.'],
    sign_in_refused: ['The sign-in was rejected', 'Go back to the application and sign in again.'],
    unknown_provider: ['Unknown identity provider', 'This installation has no identity provider with that name.'],
    provider_unavailable: ['The identity provider is not responding', 'Try to sign in again in a moment.'],
    application_suspended: [
      'The application is suspended',
      'The operator of this service has suspended this application.',
    ],
    account_frozen: [
      'The account is frozen',
      'The operator of this service has frozen the account: you can view it, but not send anything from it. Contact support.',
    ],
    rate_limited: ['Too many requests', 'Wait a moment, then try again.'],
    not_found: ['Page not found', 'There is nothing at this address.'],
    database_unavailable: [
      'The service is not available at the moment',
      'Your input may have taken effect. Check it in a moment, before you submit it again.',
    ],
    shutting_down: ['The service is restarting', 'Try again in a moment.'],
    invalid_address: [
      'This is not an address',
      'An address is 0x and 40 more characters: digits and letters from a to f. Copy it again.',
    ],
    invalid_user_id: ['This is not a user id', 'A user id starts with the name of the user’s identity provider.'],
    invalid_amount: [
      'This amount cannot be sent',
      'The amount must be greater than zero. A single collectible needs no amount; others are counted in whole units.',
    ],
    amount_precision: [
      'The amount has too many decimal places',
      'This asset has fewer decimal places. Amounts are not rounded. Enter fewer decimal places.',
    ],
    invalid_recipient: [
      'This address cannot receive it',
      'Anything sent to this address would be lost permanently. Choose another recipient.',
    ],
    unknown_recipient: [
      'Recipient not found',
      'No user, or more than one, has this name. Check the name, or use an address.',
    ],
    insufficient_funds: [
      'Insufficient funds',
      'Your account holds less than the amount plus the highest possible fee.',
    ],
    insufficient_tokens: [
      'Not enough of this token',
      'Your account holds less than you want to send. Choose a smaller amount.',
    ],
    not_token_owner: ['This is not yours', 'The collectible belongs to another account, or does not exist.'],
    transfer_refused: ['The token rejected the transfer', 'Nothing was sent. Check the recipient and the amount.'],
    execution_reverted: [
      'The contract rejected the transaction',
      'Nothing was sent. Check the details, or contact support.',
    ],
    policy_denied: ['The rules of this service do not allow this', 'Nothing was sent. Contact support.'],
    gas_not_sponsored: [
      'The network fee is not paid for this',
      'The operator of this service pays network fees here, but not for this transfer. Nothing was sent, and your assets are unchanged.',
    ],
    fee_cap_reached: [
      'The network is too expensive at the moment',
      'The network requires a higher fee than the operator of this service allows. Nothing was sent. Try again later.',
    ],
    too_many_pending: ['Too many transactions are pending', 'Wait until some of them are confirmed.'],
    account_stopped: [
      'The account is stopped',
      'The operator of this service must review the account first. Contact support.',
    ],
    chain_unavailable: ['The network is not responding', 'Nothing new was sent. Try again in a moment.'],
    chain_timeout: ['The network is not responding', 'Nothing new was sent. Try again in a moment.'],
    signer_unavailable: [
      'The service is not available at the moment',
      'Submit the same form again. It takes effect only once.',
    ],
    overloaded: ['The service is busy', 'Try again in a moment.'],
    idempotency_key_reused: ['This form was already used for something else', 'Start again.'],
    internal_error: [
      'Something went wrong on our side',
      'Your input may have taken effect. Check it before you submit it again. If it happens again, contact support.',
    ],
  } as Record<PageCode, [title: string, help: string]>,
  /** what an application may show to its user for each refusal of the API */
  userMessages,
  exporting: exporting.en,
  account: {
    title: 'Your account',
    signOut: 'Sign out',
    address: 'Your address',
    copy: 'Copy the address',
    copied: 'Copied',
    addressHint: 'The same on every network and in every application. Select it to copy it, or scan the code.',
    qrLabel: 'QR code of your address',
    unreadable: 'This network is not responding at the moment. Nothing is lost: check again later.',
    collectibles: 'Collectibles',
    spam: 'Looks like spam',
    spamHint: 'Its name looks like a known scam. Do not visit sites in the name.',
    showAll: 'Show all activity',
    browserOn: (browser: string, system: string) => `${browser} on ${system}`,
    unknownBrowser: 'unknown browser',
    received: (from: string) => `from ${from}`,
    created: 'issued to you',
    destroyed: 'destroyed',
    sent: (to: string) => `to ${to}`,
    toMyself: 'to yourself',
    states: {
      SUBMITTED: 'pending',
      MINED: 'confirmed',
      FINALIZED: 'completed',
      REVERTED: 'rejected by the contract',
      FAILED: 'failed',
      REPLACED: 'replaced by another',
      CANCELLED: 'cancelled',
    },
    applications: 'Applications with access',
    noApplications: 'None. An application appears here once you have signed in to it.',
    signIns: (count: number) =>
      count === 1 ? 'one active sign-in' : count === 0 ? 'no active sign-in' : `${count} active sign-ins`,
    revoke: 'Revoke access',
    identities: 'Ways to sign in',
    identitiesHint:
      'Each of these sign-ins opens this account. The first sign-in cannot be removed, because it identifies the account.',
    firstIdentity: 'first',
    remove: 'Remove',
    add: (provider: string) => `Add a sign-in with ${provider}`,
    sessions: 'Where you are signed in',
    sessionsHint:
      'Signing out a browser ends its session here. Applications stay signed in until you sign out everywhere or revoke their access.',
    thisBrowser: 'this browser',
    since: (time: string) => `since ${time}`,
    signOutOthers: 'Sign out all other browsers',
    signOutEverywhere: 'Sign out everywhere, applications too',
    signedOutEverywhere:
      'In every browser and in every application, within a minute. Your consents remain valid: applications need not ask you again.',
    unlinkedHere:
      'You removed the sign-in that you had used here. All other sessions of this sign-in have ended as well. You can close this page.',
    data: 'Download my data',
    erase: 'Delete my data',
    signedOut: 'You are signed out',
    signedOutHint: 'You can close this page.',
    erased: 'Your data is deleted',
    erasedHint: 'You are signed out everywhere. You can close this page.',
    notSignedIn: 'You are not signed in',
    signIn: 'Sign in',
    back: 'Back to your account',
  },
  send: {
    title: 'Send',
    to: 'To',
    toHint: 'A name, a user id or an address that begins with 0x.',
    provider: 'Identity provider of the name',
    amount: 'Amount',
    amountHint: 'For example 1.5.',
    next: 'Continue',
    nothing: 'There is nothing to send yet.',
    confirmTitle: 'Send this?',
    myself: 'yourself',
    sentence: (amount: string, recipient: string, network: string): Rich => [
      'You send ',
      { strong: amount },
      ' to ',
      { strong: recipient },
      ' on the ',
      { strong: network },
      '.',
    ],
    address: 'Address',
    stranger: (id: string) =>
      `${id} has not signed in here yet. An account will be created for them, and nobody else can use it.`,
    fee: 'Maximum fee',
    final: 'A transfer cannot be reversed.',
    confirm: 'Send now',
    change: 'Edit',
    sentTitle: 'Sent',
    state: 'Status',
    time: 'Time',
    explorer: 'View in the block explorer',
    ambiguous: 'The amount cannot be read or is ambiguous. Write it without thousands separators, for example 1.5.',
    notSetUp: 'Sending from this page is not set up',
    notSetUpHint: (network: string) =>
      `On ${network}, the operator of this service pays the network fees, and has not set up sending from this page. Your assets are unchanged, and you can still receive.`,
  },
  /** everything that was signed with the account, from the signer's log */
  signatures: signatures.en,
  console: consoleTexts.en,
  /** requests that wait for the user’s decision */
  approvals: approvals.en,
  /** native currency in the activity */
  native: native.en,
  /** tabs of the account pages, and the pages that are in no other table */
  wallet: wallet.en,
  activity: {
    title: 'Activity',
    network: 'Network',
    show: 'Show',
    direction: 'Direction',
    all: 'all',
    in: 'received',
    out: 'sent',
    application: 'Application',
    apply: 'Show these',
    older: 'Older',
    newest: 'Back to the newest',
    nothing: 'Nothing here yet.',
    tokensHint: 'Transfers that look like spam are not shown.',
    yourself: 'you, on these pages',
    unknown: 'unknown application',
    called: (name: string, contract: string) => `${name} of the contract ${contract}`,
    transferred: (recipient: string) => `transfer to ${recipient}`,
    fee: 'Fee paid',
  },
  erase: {
    title: 'Delete your data?',
    goesTitle: 'Deleted',
    goes: [
      'your name, your picture and your e-mail address',
      'the applications that you used, and your consents; you are signed out of the applications',
      'every way to sign in except the first one',
      'your sessions; you are signed out everywhere',
    ],
    staysTitle: 'Not deleted',
    stays: [
      'Everything that is on a blockchain: your address, its balances and its transfers are public, and nobody can delete them.',
      'The id and the address of your account, with the record of its transactions, because they belong to the data on the blockchain.',
      'The key of your account, in the signer: without the key, everything at the address would be lost.',
    ],
    back: (identity: string) =>
      `If you sign in as ${identity} again, you get the same account. If you can no longer sign in that way, first send your funds to another address.`,
    sure: 'I understand which data is deleted and which is not',
    delete: 'Delete my data',
    keep: 'Do not delete anything',
  },
  /** what the user has just done, by the code in the address */
  done: {
    again: 'You signed in again. Now repeat your last step.',
    revoked:
      'Access revoked. The access of the application ends within a minute. To get access again, the application must ask you.',
    linked: 'Added. You can now sign in to this account this way.',
    already_linked: 'That sign-in already belongs to this account.',
    has_own_account:
      'That sign-in already has its own account here, which may hold funds, so you cannot add it to this account. To use the other account, sign in with it.',
    unlinked:
      'Removed. This sign-in now opens another account. Browsers and applications that used it are signed out within a minute.',
    kept: 'This sign-in could not be removed: it is the first one, or was already removed.',
    undone: 'Access given again. The application must sign in again to use it.',
    undo_over: 'This revocation can no longer be undone. The application can ask you again.',
    signed_out: 'That browser is signed out.',
  } as Record<string, string>,
}

/** A language: the same texts as in English. */
export type Texts = typeof en
