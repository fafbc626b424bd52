/** Texts of the operator console (`console/console.ts`). Ids, commands, states and words of nodes are the same in every language. */
const en = {
  title: 'Operator console',
  pages: 'Pages of the console',
  nav: {
    overview: 'Overview',
    applications: 'Applications',
    networks: 'Networks and sponsors',
    policy: 'Policy',
    audit: 'Audit log',
    operators: 'Operators',
  },
  roles: {
    owner: 'owner',
    operator: 'operator',
    support: 'support',
    viewer: 'viewer',
  },
  signedInAs: (a: string, b: string) => `Signed in as ${a}, ${b}`,
  search: {
    button: 'Search',
    label: 'Transaction id, hash, address, user id or username',
    title: 'Search results',
    none: 'No transaction, user or application matches this text.',
    requests: 'A request id is in the log, not in the database. Search the log for its field requestId.',
  },
  done: 'Done. The action is in the audit log.',
  again: 'You have signed in again. Repeat the action now.',
  command: 'On the command line',
  confirm: (a: string) => `Type ${a} to confirm`,
  fresh: 'Requires a sign-in of the last five minutes.',
  notTyped: 'The typed name is different. Nothing was changed.',
  notAllowed: 'Your role does not permit this action. Nothing was changed.',
  ownRole: 'You cannot change your own role. Ask another owner, or use the command line.',
  next: 'Next page',
  none: 'None.',
  unknown: 'unknown',
  noNode: 'This program opens no node and cannot show balances. Run chatelaine sponsor list on the API server.',
  overview: {
    wrong: 'Needs attention',
    fine: 'No problem is known.',
    apart:
      'The API is a separate program. This page shows the database and the signer; node responses are in the API’s /readyz.',
    activity: 'Activity',
    activityHint: 'Successful requests to the API, and sign-ins. Counts are up to 15 seconds old.',
    write: 'Writes',
    read: 'Reads',
    'sign-in': 'Sign-ins',
    hour: 'last hour',
    day: 'last 24 hours',
    chart: (a: string) => `${a} by hour, last 24 hours`,
    table: 'Numbers by hour',
    from: 'Hour from',
    count: 'Count',
  },
  problems: {
    stopped: (a: string, b: string, c: string) =>
      `${a} is stopped on chain ${b}: a foreign transaction used nonce ${c}. Ask its user, then resume the account.`,
    resuming: (a: string, b: string, c: string) =>
      `${a} resumes on chain ${b} as soon as its server has verified the nonce ${c}.`,
    more: (a: string) => `${a} further accounts are stopped. Run chatelaine account stopped.`,
    low: (a: string, b: string) => `Sponsor ${a} on ${b} has a low balance. Send funds to its address.`,
    halted: (a: string, b: string, c: string) =>
      `${a} is halted at block ${b}: ${c} Check the node, then run chatelaine network rewind ${a}.`,
    blocked: (a: string, b: string, c: string) =>
      `${a} cannot read the block after ${b}: ${c}. Check the node or add another one.`,
    behind: (a: string, b: string, c: string) =>
      `${a} is at block ${b}, and its nodes report block ${c}. Check the server’s log.`,
    silent: (a: string, b: string) =>
      `The nodes of ${a} have not responded for ${b} s. Check the nodes and their URLs.`,
    unfollowed: (a: string) => `No server follows ${a}. Start a server of the API with nodes of this network.`,
    history: (a: string, b: string, c: string) =>
      `The history of ${a} is at block ${b}, and transactions are at block ${c}. Check the server’s log.`,
    backfill: (a: string, b: string) => `The backfill of ${a} waits: ${b} Check the node.`,
    signer: 'The signer does not respond. No write is signed. Start the signer and check its log.',
    revocations:
      'The signer lacks a fresh revocation list and accepts no token. Check that an authorization server runs.',
    masterKey: (a: string) =>
      `The signer’s master key (KEK) cannot be used: ${a}. Fix this before the signer restarts.`,
    tokenKey: 'The signer does not trust the key of the present tokens. Run chatelaine signer trust-key.',
    policy: (a: string, b: string) =>
      `The content of SIGNER_POLICY_FILE is not in force: ${a}. Version ${b} remains in force. Sign a valid policy.`,
    exports: (a: string) => `Users have requested ${a} keys. Check the requests with chatelaine account exports.`,
  },
  operators: {
    title: 'Operators of the console',
    hint: 'A role belongs to one identity. Other identities of the same account have no role.',
    notAuthentic: 'no role: the row has no valid seal',
    add: 'Give a role',
    userId: 'User id',
    repeat: 'User id again, to confirm',
    role: 'Role',
    since: 'Since',
  },
  acts: {
    freeze: 'Freeze the account',
    unfreeze: 'Unfreeze the account',
    'sign-out': 'Sign out everywhere',
    'cancel-export': 'Cancel the key request',
    'resume-account': 'Resume the account',
    suspend: 'Suspend the application',
    resume: 'Resume the application',
    'rotate-secret': 'Rotate the secret',
    'reset-secret': 'Reset the secret, end all old ones',
    'create-sponsor': 'Create a sponsor',
    'set-network': 'Set limits for sponsors',
    'cancel-transaction': 'Cancel the transaction',
    'speed-up-transaction': 'Bump the fee',
    'add-operator': 'Give the role',
    'remove-operator': 'Remove the operator',
  },
  secret: {
    title: 'New secret',
    hint: 'The secret is shown only once. Copy it to the application now.',
  },
  back: 'Back',
}

export type ConsoleTexts = typeof en

export const consoleTexts: Record<'en' | 'de' | 'fr' | 'es' | 'ja', ConsoleTexts> = {
  en,
  de: {
    title: 'Betriebskonsole',
    pages: 'Seiten der Konsole',
    nav: {
      overview: 'Übersicht',
      applications: 'Anwendungen',
      networks: 'Netzwerke und Sponsoren',
      policy: 'Richtlinie',
      audit: 'Protokoll der Eingriffe',
      operators: 'Betreiberrollen',
    },
    roles: {
      owner: 'Eigentümer',
      operator: 'Betreiber',
      support: 'Kundendienst',
      viewer: 'nur lesend',
    },
    signedInAs: (a: string, b: string) => `Angemeldet als ${a}, ${b}`,
    search: {
      button: 'Suchen',
      label: 'Transaktions-ID, Hash, Adresse, Benutzer-ID oder Name',
      title: 'Suchergebnisse',
      none: 'Keine Transaktion, kein Benutzer und keine Anwendung passt zu diesem Text.',
      requests: 'Eine Anfrage-ID steht im Protokoll, nicht in der Datenbank. Suchen Sie dort nach dem Feld requestId.',
    },
    done: 'Erledigt. Der Eingriff steht im Protokoll.',
    again: 'Sie sind neu angemeldet. Wiederholen Sie den Eingriff jetzt.',
    command: 'Auf der Befehlszeile',
    confirm: (a: string) => `Zur Bestätigung ${a} eingeben`,
    fresh: 'Verlangt eine Anmeldung der letzten fünf Minuten.',
    notTyped: 'Der eingegebene Name ist ein anderer. Nichts wurde geändert.',
    notAllowed: 'Ihre Rolle erlaubt diesen Eingriff nicht. Nichts wurde geändert.',
    ownRole:
      'Die eigene Rolle lässt sich nicht ändern. Fragen Sie einen anderen Eigentümer, oder nutzen Sie die Befehlszeile.',
    next: 'Nächste Seite',
    none: 'Keine.',
    unknown: 'unbekannt',
    noNode:
      'Dieses Programm öffnet keinen Knoten und zeigt keine Guthaben. Führen Sie chatelaine sponsor list auf dem API-Server aus.',
    overview: {
      wrong: 'Handlungsbedarf',
      fine: 'Kein Problem ist bekannt.',
      apart:
        'Die API ist ein eigenes Programm. Diese Seite zeigt Datenbank und Signaturdienst; Antworten der Knoten stehen in /readyz der API.',
      activity: 'Aktivität',
      activityHint: 'Erfolgreiche Anfragen an die API, und Anmeldungen. Die Zahlen sind bis zu 15 Sekunden alt.',
      write: 'Schreibvorgänge',
      read: 'Lesevorgänge',
      'sign-in': 'Anmeldungen',
      hour: 'letzte Stunde',
      day: 'letzte 24 Stunden',
      chart: (a: string) => `${a} je Stunde, letzte 24 Stunden`,
      table: 'Zahlen je Stunde',
      from: 'Stunde ab',
      count: 'Anzahl',
    },
    problems: {
      stopped: (a: string, b: string, c: string) =>
        `${a} ist auf Chain ${b} angehalten: Eine fremde Transaktion hat die Nonce ${c} verbraucht. Fragen Sie den Benutzer und setzen Sie das Konto dann fort.`,
      resuming: (a: string, b: string, c: string) =>
        `${a} wird auf Chain ${b} fortgesetzt, sobald der Server die Nonce ${c} geprüft hat.`,
      more: (a: string) => `${a} weitere Konten sind angehalten. Führen Sie chatelaine account stopped aus.`,
      low: (a: string, b: string) => `Sponsor ${a} auf ${b} hat wenig Guthaben. Senden Sie Mittel an seine Adresse.`,
      halted: (a: string, b: string, c: string) =>
        `${a} ist bei Block ${b} angehalten: ${c} Prüfen Sie den Knoten, dann chatelaine network rewind ${a}.`,
      blocked: (a: string, b: string, c: string) =>
        `${a} kann den Block nach ${b} nicht lesen: ${c}. Prüfen Sie den Knoten, oder fügen Sie einen weiteren hinzu.`,
      behind: (a: string, b: string, c: string) =>
        `${a} ist bei Block ${b}, die Knoten melden Block ${c}. Prüfen Sie das Protokoll des Servers.`,
      silent: (a: string, b: string) =>
        `Die Knoten von ${a} antworten seit ${b} s nicht. Prüfen Sie die Knoten und ihre URLs.`,
      unfollowed: (a: string) => `Kein Server folgt ${a}. Starten Sie einen API-Server mit Knoten dieses Netzwerks.`,
      history: (a: string, b: string, c: string) =>
        `Der Verlauf von ${a} ist bei Block ${b}, die Transaktionen sind bei Block ${c}. Prüfen Sie das Protokoll des Servers.`,
      backfill: (a: string, b: string) => `Der Nachtrag von ${a} wartet: ${b} Prüfen Sie den Knoten.`,
      signer:
        'Der Signaturdienst antwortet nicht. Nichts wird unterschrieben. Starten Sie ihn, und prüfen Sie sein Protokoll.',
      revocations:
        'Dem Signaturdienst fehlt eine frische Sperrliste, er nimmt keine Token an. Prüfen Sie, ob ein Anmeldeserver läuft.',
      masterKey: (a: string) =>
        `Der Hauptschlüssel (KEK) des Signaturdienstes ist nicht nutzbar: ${a}. Beheben Sie das vor seinem nächsten Start.`,
      tokenKey:
        'Der Signaturdienst vertraut dem Schlüssel der jetzigen Token nicht. Führen Sie chatelaine signer trust-key aus.',
      policy: (a: string, b: string) =>
        `Der Inhalt von SIGNER_POLICY_FILE gilt nicht: ${a}. Version ${b} gilt weiter. Unterschreiben Sie eine gültige Richtlinie.`,
      exports: (a: string) =>
        `Benutzer haben ${a} Schlüssel angefordert. Prüfen Sie die Anträge mit chatelaine account exports.`,
    },
    operators: {
      title: 'Betreiber der Konsole',
      hint: 'Eine Rolle gehört zu einer Identität. Andere Identitäten desselben Kontos haben keine Rolle.',
      notAuthentic: 'keine Rolle: Die Zeile hat kein gültiges Siegel',
      add: 'Rolle vergeben',
      userId: 'Benutzer-ID',
      repeat: 'Benutzer-ID noch einmal, zur Bestätigung',
      role: 'Rolle',
      since: 'Seit',
    },
    acts: {
      freeze: 'Konto einfrieren',
      unfreeze: 'Einfrieren aufheben',
      'sign-out': 'Überall abmelden',
      'cancel-export': 'Schlüsselantrag abbrechen',
      'resume-account': 'Konto fortsetzen',
      suspend: 'Anwendung sperren',
      resume: 'Anwendung freigeben',
      'rotate-secret': 'Geheimnis wechseln',
      'reset-secret': 'Geheimnis zurücksetzen, alle alten beenden',
      'create-sponsor': 'Sponsor anlegen',
      'set-network': 'Grenzen für Sponsoren setzen',
      'cancel-transaction': 'Transaktion abbrechen',
      'speed-up-transaction': 'Gebühr erhöhen',
      'add-operator': 'Rolle geben',
      'remove-operator': 'Rolle entziehen',
    },
    secret: {
      title: 'Neues Geheimnis',
      hint: 'Das Geheimnis wird nur einmal gezeigt. Übertragen Sie es jetzt in die Anwendung.',
    },
    back: 'Zurück',
  },
  fr: {
    title: 'Console d’exploitation',
    pages: 'Pages de la console',
    nav: {
      overview: 'Vue d’ensemble',
      applications: 'Toutes les applications',
      networks: 'Réseaux et sponsors',
      policy: 'Règles de signature',
      audit: 'Journal d’audit',
      operators: 'Opérateurs',
    },
    roles: {
      owner: 'propriétaire',
      operator: 'opérateur',
      support: 'assistance',
      viewer: 'lecture seule',
    },
    signedInAs: (a: string, b: string) => `Connecté en tant que ${a}, ${b}`,
    search: {
      button: 'Rechercher',
      label: 'Identifiant ou hash de transaction, adresse, utilisateur ou nom',
      title: 'Résultats de la recherche',
      none: 'Aucune transaction, aucun utilisateur et aucune application ne correspond à ce texte.',
      requests: 'Un identifiant de requête est dans le journal, pas dans la base. Cherchez-y le champ requestId.',
    },
    done: 'C’est fait. L’action est dans le journal d’audit.',
    again: 'Vous êtes de nouveau connecté. Répétez l’action maintenant.',
    command: 'En ligne de commande',
    confirm: (a: string) => `Pour confirmer, saisissez ${a}`,
    fresh: 'Exige une connexion des cinq dernières minutes.',
    notTyped: 'Le nom saisi est différent. Rien n’a été modifié.',
    notAllowed: 'Votre rôle ne permet pas cette action. Rien n’a été modifié.',
    ownRole:
      'Vous ne pouvez pas changer votre propre rôle. Demandez à un autre propriétaire ou utilisez la ligne de commande.',
    next: 'Page suivante',
    none: 'Aucun élément.',
    unknown: 'inconnu',
    noNode:
      'Ce programme n’ouvre aucun nœud et n’affiche pas de soldes. Lancez chatelaine sponsor list sur le serveur de l’API.',
    overview: {
      wrong: 'À traiter',
      fine: 'Aucun problème n’est connu.',
      apart:
        'L’API est un programme séparé. Cette page montre la base et le service de signature\u202f; les réponses des nœuds sont dans /readyz de l’API.',
      activity: 'Activité',
      activityHint: 'Requêtes réussies de l’API, et connexions. Les chiffres ont jusqu’à 15 secondes.',
      write: 'Écritures',
      read: 'Lectures',
      'sign-in': 'Connexions',
      hour: 'dernière heure',
      day: 'dernières 24 heures',
      chart: (a: string) => `${a} par heure, dernières 24 heures`,
      table: 'Chiffres par heure',
      from: 'Heure à partir de',
      count: 'Nombre',
    },
    problems: {
      stopped: (a: string, b: string, c: string) =>
        `${a} est arrêté sur la chaîne ${b}\u202f: une transaction étrangère a utilisé le nonce ${c}. Demandez à l’utilisateur, puis relancez le compte.`,
      resuming: (a: string, b: string, c: string) =>
        `${a} reprend sur la chaîne ${b} dès que le serveur a vérifié le nonce ${c}.`,
      more: (a: string) => `${a} autres comptes sont arrêtés. Lancez chatelaine account stopped.`,
      low: (a: string, b: string) => `Le sponsor ${a} sur ${b} a un solde faible. Envoyez des fonds à son adresse.`,
      halted: (a: string, b: string, c: string) =>
        `${a} est arrêté au bloc ${b}\u202f: ${c} Vérifiez le nœud, puis lancez chatelaine network rewind ${a}.`,
      blocked: (a: string, b: string, c: string) =>
        `${a} ne peut pas lire le bloc après ${b}\u202f: ${c}. Vérifiez le nœud ou ajoutez-en un.`,
      behind: (a: string, b: string, c: string) =>
        `${a} est au bloc ${b}, et ses nœuds indiquent le bloc ${c}. Vérifiez le journal du serveur.`,
      silent: (a: string, b: string) =>
        `Les nœuds de ${a} ne répondent pas depuis ${b} s. Vérifiez les nœuds et leurs URL.`,
      unfollowed: (a: string) =>
        `Aucun serveur ne suit ${a}. Démarrez un serveur de l’API avec des nœuds de ce réseau.`,
      history: (a: string, b: string, c: string) =>
        `L’historique de ${a} est au bloc ${b}, les transactions au bloc ${c}. Vérifiez le journal du serveur.`,
      backfill: (a: string, b: string) => `Le rattrapage de ${a} attend\u202f: ${b} Vérifiez le nœud.`,
      signer:
        'Le service de signature ne répond pas. Aucune écriture n’est signée. Démarrez-le et vérifiez son journal.',
      revocations:
        'Le service de signature n’a pas de liste de révocation récente et n’accepte aucun jeton. Vérifiez qu’un serveur d’autorisation tourne.',
      masterKey: (a: string) =>
        `La clé maîtresse (KEK) du service de signature est inutilisable\u202f: ${a}. Corrigez cela avant son redémarrage.`,
      tokenKey:
        'Le service de signature ne fait pas confiance à la clé des jetons actuels. Lancez chatelaine signer trust-key.',
      policy: (a: string, b: string) =>
        `Le contenu de SIGNER_POLICY_FILE n’est pas en vigueur\u202f: ${a}. La version ${b} le reste. Signez des règles valides.`,
      exports: (a: string) =>
        `Des utilisateurs ont demandé ${a} clés. Vérifiez les demandes avec chatelaine account exports.`,
    },
    operators: {
      title: 'Opérateurs de la console',
      hint: 'Un rôle appartient à une identité. Les autres identités du même compte n’en ont pas.',
      notAuthentic: 'aucun rôle\u202f: la ligne n’a pas de sceau valide',
      add: 'Attribuer un rôle',
      userId: 'Identifiant de l’utilisateur',
      repeat: 'Identifiant encore une fois, pour confirmer',
      role: 'Rôle',
      since: 'Depuis',
    },
    acts: {
      freeze: 'Geler le compte',
      unfreeze: 'Dégeler le compte',
      'sign-out': 'Déconnecter partout',
      'cancel-export': 'Annuler la demande de clé',
      'resume-account': 'Relancer le compte',
      suspend: 'Suspendre l’application',
      resume: 'Rétablir l’application',
      'rotate-secret': 'Renouveler le secret',
      'reset-secret': 'Réinitialiser le secret, révoquer les anciens',
      'create-sponsor': 'Créer un sponsor',
      'set-network': 'Fixer les limites des sponsors',
      'cancel-transaction': 'Annuler la transaction',
      'speed-up-transaction': 'Augmenter les frais',
      'add-operator': 'Attribuer le rôle',
      'remove-operator': 'Retirer l’opérateur',
    },
    secret: {
      title: 'Nouveau secret',
      hint: 'Le secret n’est affiché qu’une fois. Copiez-le maintenant dans l’application.',
    },
    back: 'Retour',
  },
  es: {
    title: 'Consola de operación',
    pages: 'Páginas de la consola',
    nav: {
      overview: 'Resumen',
      applications: 'Aplicaciones',
      networks: 'Redes y patrocinadores',
      policy: 'Política',
      audit: 'Registro de auditoría',
      operators: 'Operadores',
    },
    roles: {
      owner: 'propietario',
      operator: 'operador',
      support: 'soporte',
      viewer: 'solo lectura',
    },
    signedInAs: (a: string, b: string) => `Sesión iniciada como ${a}, ${b}`,
    search: {
      button: 'Buscar',
      label: 'Id o hash de transacción, dirección, id de usuario o nombre',
      title: 'Resultados de la búsqueda',
      none: 'Ninguna transacción, usuario ni aplicación coincide con este texto.',
      requests: 'Un id de solicitud está en el registro, no en la base de datos. Busca allí el campo requestId.',
    },
    done: 'Hecho. La acción está en el registro de auditoría.',
    again: 'Has vuelto a iniciar sesión. Repite la acción ahora.',
    command: 'En la línea de órdenes',
    confirm: (a: string) => `Escribe ${a} para confirmar`,
    fresh: 'Exige un inicio de sesión de los últimos cinco minutos.',
    notTyped: 'El nombre escrito es distinto. No se cambió nada.',
    notAllowed: 'Tu rol no permite esta acción. No se cambió nada.',
    ownRole: 'No puedes cambiar tu propio rol. Pide ayuda a otro propietario o usa la línea de órdenes.',
    next: 'Página siguiente',
    none: 'Ninguno.',
    unknown: 'desconocido',
    noNode:
      'Este programa no abre ningún nodo y no muestra saldos. Ejecuta chatelaine sponsor list en el servidor de la API.',
    overview: {
      wrong: 'Requiere atención',
      fine: 'No se conoce ningún problema.',
      apart:
        'La API es un programa aparte. Esta página muestra la base de datos y el servicio de firma; las respuestas de los nodos están en /readyz de la API.',
      activity: 'Actividad',
      activityHint: 'Solicitudes correctas a la API e inicios de sesión. Las cifras tienen hasta 15 segundos.',
      write: 'Escrituras',
      read: 'Lecturas',
      'sign-in': 'Inicios de sesión',
      hour: 'última hora',
      day: 'últimas 24 horas',
      chart: (a: string) => `${a} por hora, últimas 24 horas`,
      table: 'Cifras por hora',
      from: 'Hora desde',
      count: 'Cantidad',
    },
    problems: {
      stopped: (a: string, b: string, c: string) =>
        `${a} está detenida en la cadena ${b}: una transacción ajena usó el nonce ${c}. Pregunta al usuario y luego reanuda la cuenta.`,
      resuming: (a: string, b: string, c: string) =>
        `${a} se reanuda en la cadena ${b} en cuanto el servidor compruebe el nonce ${c}.`,
      more: (a: string) => `Hay ${a} cuentas más detenidas. Ejecuta chatelaine account stopped.`,
      low: (a: string, b: string) => `El patrocinador ${a} en ${b} tiene poco saldo. Envía fondos a su dirección.`,
      halted: (a: string, b: string, c: string) =>
        `${a} está parada en el bloque ${b}: ${c} Comprueba el nodo y ejecuta chatelaine network rewind ${a}.`,
      blocked: (a: string, b: string, c: string) =>
        `${a} no puede leer el bloque posterior a ${b}: ${c}. Comprueba el nodo o añade otro.`,
      behind: (a: string, b: string, c: string) =>
        `${a} está en el bloque ${b} y sus nodos indican el bloque ${c}. Comprueba el registro del servidor.`,
      silent: (a: string, b: string) =>
        `Los nodos de ${a} no responden desde hace ${b} s. Comprueba los nodos y sus URL.`,
      unfollowed: (a: string) => `Ningún servidor sigue ${a}. Inicia un servidor de la API con nodos de esta red.`,
      history: (a: string, b: string, c: string) =>
        `El historial de ${a} está en el bloque ${b} y las transacciones en el bloque ${c}. Comprueba el registro del servidor.`,
      backfill: (a: string, b: string) => `La carga del pasado de ${a} espera: ${b} Comprueba el nodo.`,
      signer: 'El servicio de firma no responde. No se firma ninguna escritura. Inícialo y comprueba su registro.',
      revocations:
        'Al servicio de firma le falta una lista de revocación reciente y no acepta ningún token. Comprueba que haya un servidor de autorización en marcha.',
      masterKey: (a: string) =>
        `La clave maestra (KEK) del servicio de firma no se puede usar: ${a}. Corrígelo antes de reiniciarlo.`,
      tokenKey:
        'El servicio de firma no confía en la clave de los tokens actuales. Ejecuta chatelaine signer trust-key.',
      policy: (a: string, b: string) =>
        `El contenido de SIGNER_POLICY_FILE no está en vigor: ${a}. La versión ${b} sigue en vigor. Firma una política válida.`,
      exports: (a: string) =>
        `Los usuarios han solicitado ${a} claves. Comprueba las solicitudes con chatelaine account exports.`,
    },
    operators: {
      title: 'Operadores de la consola',
      hint: 'Un rol pertenece a una identidad. Las demás identidades de la misma cuenta no tienen rol.',
      notAuthentic: 'sin rol: la fila no tiene un sello válido',
      add: 'Dar un rol',
      userId: 'Id de usuario',
      repeat: 'Id de usuario otra vez, para confirmar',
      role: 'Rol',
      since: 'Desde',
    },
    acts: {
      freeze: 'Congelar la cuenta',
      unfreeze: 'Descongelar la cuenta',
      'sign-out': 'Cerrar todas las sesiones',
      'cancel-export': 'Cancelar la solicitud de clave',
      'resume-account': 'Reanudar la cuenta',
      suspend: 'Suspender la aplicación',
      resume: 'Reanudar la aplicación',
      'rotate-secret': 'Rotar el secreto',
      'reset-secret': 'Restablecer el secreto y anular los antiguos',
      'create-sponsor': 'Crear un patrocinador',
      'set-network': 'Fijar límites de patrocinadores',
      'cancel-transaction': 'Cancelar la transacción',
      'speed-up-transaction': 'Aumentar la comisión',
      'add-operator': 'Dar el rol',
      'remove-operator': 'Quitar el operador',
    },
    secret: {
      title: 'Secreto nuevo',
      hint: 'El secreto solo se muestra una vez. Cópialo ahora en la aplicación.',
    },
    back: 'Volver',
  },
  ja: {
    title: '運用コンソール',
    pages: 'コンソールのページ',
    nav: {
      overview: '概要',
      applications: 'アプリケーション',
      networks: 'ネットワークとスポンサー',
      policy: 'ポリシー',
      audit: '監査記録',
      operators: '運用者',
    },
    roles: {
      owner: '所有者',
      operator: '運用者',
      support: 'サポート',
      viewer: '閲覧のみ',
    },
    signedInAs: (a: string, b: string) => `${a}（${b}）としてサインイン中`,
    search: {
      button: '検索',
      label: '取引ID・ハッシュ・アドレス・ユーザーID・名前',
      title: '検索結果',
      none: 'この文字列に一致する取引、ユーザー、アプリケーションはありません。',
      requests: 'リクエストIDはデータベースではなくログにあります。ログの requestId 欄を検索してください。',
    },
    done: '完了しました。操作は監査記録にあります。',
    again: 'もう一度サインインしました。操作をやり直してください。',
    command: 'コマンドライン',
    confirm: (a: string) => `確認のため ${a} と入力`,
    fresh: '直近5分以内のサインインが必要です。',
    notTyped: '入力された名前が違います。何も変更されていません。',
    notAllowed: 'あなたの役割ではこの操作はできません。何も変更されていません。',
    ownRole: '自分の役割は変更できません。別の所有者に頼むか、コマンドラインを使ってください。',
    next: '次のページ',
    none: 'ありません。',
    unknown: '不明',
    noNode:
      'このプログラムはノードを開かず、残高を表示できません。APIサーバーで chatelaine sponsor list を実行してください。',
    overview: {
      wrong: '対応が必要',
      fine: '既知の問題はありません。',
      apart:
        'APIは別のプログラムです。このページはデータベースと署名サービスを示します。ノードの応答はAPIの /readyz にあります。',
      activity: '利用状況',
      activityHint: '成功したAPIリクエストとサインインの数です。最大15秒遅れます。',
      write: '書き込み',
      read: '読み取り',
      'sign-in': 'サインイン',
      hour: '直近1時間',
      day: '直近24時間',
      chart: (a: string) => `${a}（1時間ごと、直近24時間）`,
      table: '1時間ごとの数値',
      from: '開始時刻',
      count: '件数',
    },
    problems: {
      stopped: (a: string, b: string, c: string) =>
        `${a} はチェーン ${b} で停止中です。外部の取引がノンス ${c} を使いました。ユーザーに確認してから再開してください。`,
      resuming: (a: string, b: string, c: string) =>
        `${a} は、サーバーがノンス ${c} を検証するとチェーン ${b} で再開します。`,
      more: (a: string) => `ほかに ${a} 件のアカウントが停止中です。chatelaine account stopped を実行してください。`,
      low: (a: string, b: string) => `${b} のスポンサー ${a} の残高が不足しています。そのアドレスに送金してください。`,
      halted: (a: string, b: string, c: string) =>
        `${a} はブロック ${b} で停止しました: ${c} ノードを確認し、chatelaine network rewind ${a} を実行してください。`,
      blocked: (a: string, b: string, c: string) =>
        `${a} は ${b} の次のブロックを読めません: ${c}。ノードを確認するか追加してください。`,
      behind: (a: string, b: string, c: string) =>
        `${a} はブロック ${b} ですが、ノードは ${c} を返しています。サーバーのログを確認してください。`,
      silent: (a: string, b: string) => `${a} のノードが ${b} 秒応答していません。ノードとURLを確認してください。`,
      unfollowed: (a: string) =>
        `${a} を追跡するサーバーがありません。このネットワークのノードを持つAPIサーバーを起動してください。`,
      history: (a: string, b: string, c: string) =>
        `${a} の履歴はブロック ${b}、取引はブロック ${c} です。サーバーのログを確認してください。`,
      backfill: (a: string, b: string) => `${a} のバックフィルが待機中です: ${b} ノードを確認してください。`,
      signer: '署名サービスが応答しません。書き込みは署名されません。起動してログを確認してください。',
      revocations:
        '署名サービスに新しい失効リストがなく、トークンを受け付けません。認可サーバーの稼働を確認してください。',
      masterKey: (a: string) => `署名サービスのマスターキー（KEK）が使えません: ${a}。再起動の前に直してください。`,
      tokenKey: '署名サービスが現在のトークンの鍵を信頼していません。chatelaine signer trust-key を実行してください。',
      policy: (a: string, b: string) =>
        `SIGNER_POLICY_FILE の内容は有効になっていません: ${a}。バージョン ${b} が引き続き有効です。正しいポリシーに署名してください。`,
      exports: (a: string) => `ユーザーが ${a} 個の鍵を要求しています。chatelaine account exports で確認してください。`,
    },
    operators: {
      title: 'コンソールの運用者',
      hint: '役割は1つのIDに属します。同じアカウントのほかのIDには役割がありません。',
      notAuthentic: '役割なし: 行に有効な封印がありません',
      add: '役割を与える',
      userId: 'ユーザーID',
      repeat: '確認のためもう一度ユーザーID',
      role: '役割',
      since: '開始日時',
    },
    acts: {
      freeze: 'アカウントを凍結',
      unfreeze: '凍結を解除',
      'sign-out': 'すべてサインアウト',
      'cancel-export': '鍵の要求を取り消す',
      'resume-account': 'アカウントを再開',
      suspend: 'アプリケーションを停止',
      resume: 'アプリケーションを再開',
      'rotate-secret': 'シークレットを更新',
      'reset-secret': 'シークレットを再設定し古いものを無効化',
      'create-sponsor': 'スポンサーを作成',
      'set-network': 'スポンサーの上限を設定',
      'cancel-transaction': '取引を取り消す',
      'speed-up-transaction': '手数料を引き上げる',
      'add-operator': '役割を与える',
      'remove-operator': '運用者を削除',
    },
    secret: {
      title: '新しいシークレット',
      hint: 'シークレットは一度だけ表示されます。今すぐアプリケーションに設定してください。',
    },
    back: '戻る',
  },
}
