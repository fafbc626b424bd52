/** Texts of the account pages as a wallet: their tabs, and the pages that are in no other table. */
type WalletTexts = {
  tabs: Record<'balance' | 'send' | 'receive' | 'activity' | 'applications' | 'security', string>
  /** above the amount of native currency of a network */
  available: string
  latest: string
  nothingYet: string
  /** title of the page with the address, and what to do with it */
  receiveTitle: string
  receiveHint: string
  /** only assets of these networks arrive */
  receiveNetworks: (networks: string) => string
  securityTitle: string
  thisDevice: string
  /** title of the links to the data file, the signatures and the deletion */
  records: string
  technical: string
  /** titles of a receipt */
  receivedTitle: string
  doneTitle: string
  from: string
  /** below a pending transaction */
  updates: string
  filter: string
  /** button that fills in the maximum */
  max: string
  otherAsset: string
  /** after a revocation: gives the same consent again */
  undo: string
  /** of a first-party application */
  ownApplication: (operator: string) => string
}

export const wallet: Record<'en' | 'de' | 'fr' | 'es' | 'ja', WalletTexts> = {
  en: {
    tabs: {
      balance: 'Balance',
      send: 'Send',
      receive: 'Receive',
      activity: 'Activity',
      applications: 'Apps',
      security: 'Security',
    },
    available: 'Available',
    latest: 'Latest activity',
    nothingYet: 'Nothing here yet. To receive something, share your address.',
    receiveTitle: 'Receive',
    receiveHint: 'Give this address to the sender, or let them scan the code.',
    receiveNetworks: (networks: string) =>
      `Receive only on: ${networks}. Anything sent on another network does not appear here.`,
    securityTitle: 'Security',
    thisDevice: 'Sign out on this device',
    records: 'Your data',
    technical: 'Technical details',
    receivedTitle: 'Received',
    doneTitle: 'Transaction',
    from: 'From',
    updates: 'This page updates itself until the network has confirmed it.',
    filter: 'Filter',
    max: 'Max',
    otherAsset: 'Send something else',
    undo: 'Undo: allow the same again',
    ownApplication: (operator) => `by ${operator}`,
  },
  de: {
    tabs: {
      balance: 'Guthaben',
      send: 'Senden',
      receive: 'Empfang',
      activity: 'Aktivität',
      applications: 'Apps',
      security: 'Sicherheit',
    },
    available: 'Verfügbar',
    latest: 'Letzte Aktivität',
    nothingYet: 'Hier ist noch nichts. Um etwas zu empfangen, geben Sie Ihre Adresse weiter.',
    receiveTitle: 'Empfangen',
    receiveHint: 'Geben Sie dem Absender diese Adresse, oder lassen Sie ihn den Code scannen.',
    receiveNetworks: (networks) =>
      `Empfangen Sie nur über: ${networks}. Was über ein anderes Netzwerk gesendet wird, erscheint hier nicht.`,
    securityTitle: 'Sicherheit',
    thisDevice: 'Auf diesem Gerät abmelden',
    records: 'Ihre Daten',
    technical: 'Technische Angaben',
    receivedTitle: 'Empfangen',
    doneTitle: 'Transaktion',
    from: 'Von',
    updates: 'Diese Seite aktualisiert sich selbst, bis das Netzwerk die Transaktion ausgeführt hat.',
    filter: 'Auswahl',
    max: 'Maximum',
    otherAsset: 'Etwas anderes senden',
    undo: 'Rückgängig: dasselbe wieder erlauben',
    ownApplication: (operator) => `von ${operator}`,
  },
  fr: {
    tabs: {
      balance: 'Solde',
      send: 'Envoyer',
      receive: 'Recevoir',
      activity: 'Activité',
      applications: 'Applis',
      security: 'Sécurité',
    },
    available: 'Disponible',
    latest: 'Activité récente',
    nothingYet: 'Rien pour le moment. Pour recevoir quelque chose, communiquez votre adresse.',
    receiveTitle: 'Recevoir',
    receiveHint: 'Donnez cette adresse à l’expéditeur, ou faites-lui scanner le code.',
    receiveNetworks: (networks) =>
      `Recevez uniquement sur\u202f: ${networks}. Ce qui est envoyé sur un autre réseau n’apparaît pas ici.`,
    securityTitle: 'Sécurité',
    thisDevice: 'Se déconnecter sur cet appareil',
    records: 'Vos données',
    technical: 'Détails techniques',
    receivedTitle: 'Reçu',
    doneTitle: 'Opération',
    from: 'De',
    updates: 'Cette page se met à jour d’elle-même jusqu’à la confirmation du réseau.',
    filter: 'Filtrer',
    max: 'Tout',
    otherAsset: 'Envoyer autre chose',
    undo: 'Annuler\u202f: autoriser de nouveau',
    ownApplication: (operator) => `par ${operator}`,
  },
  es: {
    tabs: {
      balance: 'Saldo',
      send: 'Enviar',
      receive: 'Recibir',
      activity: 'Actividad',
      applications: 'Apps',
      security: 'Seguridad',
    },
    available: 'Disponible',
    latest: 'Actividad reciente',
    nothingYet: 'Todavía no hay nada. Para recibir algo, comparte tu dirección.',
    receiveTitle: 'Recibir',
    receiveHint: 'Da esta dirección a quien te envía, o deja que escanee el código.',
    receiveNetworks: (networks) => `Recibe solo en: ${networks}. Lo que se envíe en otra red no aparece aquí.`,
    securityTitle: 'Seguridad',
    thisDevice: 'Cerrar sesión en este dispositivo',
    records: 'Tus datos',
    technical: 'Detalles técnicos',
    receivedTitle: 'Recibido',
    doneTitle: 'Operación',
    from: 'De',
    updates: 'Esta página se actualiza sola hasta que la red la confirme.',
    filter: 'Filtrar',
    max: 'Máx.',
    otherAsset: 'Enviar otra cosa',
    undo: 'Deshacer: volver a permitir lo mismo',
    ownApplication: (operator) => `de ${operator}`,
  },
  ja: {
    tabs: {
      balance: '残高',
      send: '送る',
      receive: '受け取る',
      activity: '履歴',
      applications: 'アプリ',
      security: '安全',
    },
    available: '利用可能',
    latest: '最近の履歴',
    nothingYet: 'まだ何もありません。受け取るには、アドレスを相手に伝えてください。',
    receiveTitle: '受け取る',
    receiveHint: 'このアドレスを送り主に伝えるか、コードを読み取ってもらってください。',
    receiveNetworks: (networks) =>
      `受け取れるネットワーク：${networks}。ほかのネットワークで送られたものは、ここには表示されません。`,
    securityTitle: 'セキュリティ',
    thisDevice: 'この端末でサインアウト',
    records: 'あなたのデータ',
    technical: '技術的な詳細',
    receivedTitle: '受け取りました',
    doneTitle: 'トランザクション',
    from: '送り主',
    updates: 'ネットワークで完了するまで、このページは自動的に更新されます。',
    filter: '絞り込み',
    max: '最大',
    otherAsset: '別のものを送る',
    undo: '元に戻す：同じ内容を再び許可',
    ownApplication: (operator) => `提供：${operator}`,
  },
}
